// `croupier bench cliffs`: the requests that it draws, what it measures of them, and its refusals.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "bench/cliffs/drawn_request.h"
#include "bench/cliffs/report.h"
#include "proto/param_ranges.h"
#include "testing/logit_rows.h"
#include "testing/workplace.h"

namespace croupier::bench {

using namespace testing;
namespace {

constexpr std::uint32_t kVocab = 4000;
constexpr std::int32_t kLikely[] = {1, 2, 3};

constexpr const char* kCommand = "bench cliffs --rows rows.bf16 --vocab 4000 --longest-history 300 ";

RequestSpace space_of(bool lean) {
    return {7, kVocab, 100'000, lean, kLikely};
}

nlohmann::json json_of(const Ended& ended) {
    INFO(ended.output);
    REQUIRE(ended.status == 0);
    // On a slow machine, progress messages come before it.
    return nlohmann::json::parse(ended.output.substr(ended.output.find('{')));
}

}  // namespace

TEST_CASE("bench cliffs: a request is a function of the seed and its number") {
    std::set<std::string> described;
    for (std::uint32_t number = 0; number < 50; ++number) {
        const DrawnRequest drawn = drawn_request(space_of(false), number);
        const DrawnRequest again = drawn_request(space_of(false), number);
        CHECK(describe(drawn) == describe(again));
        CHECK(drawn.request.params.seed == again.request.params.seed);
        CHECK(drawn.request.allowed == again.request.allowed);
        CHECK(drawn.request.mask == again.request.mask);
        described.insert(describe(drawn));
    }
    CHECK(described.size() == 50);
    RequestSpace other = space_of(false);
    other.seed = 8;
    CHECK(describe(drawn_request(other, 0)) != describe(drawn_request(space_of(false), 0)));
}

TEST_CASE("bench cliffs: draws every control alone and with others, with values that are allowed") {
    const bool lean = GENERATE(false, true);
    std::map<std::string, int> alone;
    std::map<std::string, int> with_others;
    for (std::uint32_t number = 0; number < 5000; ++number) {
        const DrawnRequest drawn = drawn_request(space_of(lean), number);
        const proto::SamplingParams& params = drawn.request.params;
        INFO(describe(drawn));
        CHECK_FALSE(proto::param_fault(params));
        CHECK_FALSE((lean && params.rng == proto::Rng::shvs));
        CHECK((!lean || params.logprobs <= proto::kMaxSessionLogprobs));
        for (const std::string& control : drawn.controls)
            ++(drawn.controls.size() == 1 ? alone : with_others)[control];
    }
    for (const std::string& control : control_names()) {
        INFO(control);
        CHECK(alone[control] > 0);
        CHECK(with_others[control] > 0);
    }
}

TEST_CASE("bench cliffs: draws every parameter that a decision's cost may depend on") {
    std::set<std::string> drawn;
    for (std::uint32_t number = 0; number < 5000; ++number) {
        const proto::SamplingParams params = drawn_request(space_of(false), number).request.params;
        proto::for_each_sampling_field([&](const auto& field) {
            if (params.*field.member != proto::SamplingParams{}.*field.member) drawn.insert(field.name);
        });
    }
    const std::set<std::string> without_cost = {"child", "max_tokens", "mirostat_eta"};
    proto::for_each_sampling_field([&](const auto& field) {
        INFO(field.name);
        CHECK(drawn.count(field.name) + without_cost.count(field.name) == 1);
    });
}

TEST_CASE("bench cliffs: draws values at both ends of a range and between") {
    std::set<std::int32_t> top_ks;
    std::set<double> temperatures;
    std::set<std::uint32_t> histories;
    std::set<std::size_t> lists;
    for (std::uint32_t number = 0; number < 5000; ++number) {
        const DrawnRequest drawn = drawn_request(space_of(false), number);
        top_ks.insert(drawn.request.params.top_k);
        temperatures.insert(drawn.request.params.temperature);
        histories.insert(drawn.history);
        lists.insert(drawn.request.allowed.size());
    }
    CHECK(top_ks.count(1) == 1);
    CHECK(*top_ks.rbegin() == kVocab - 1);
    CHECK(top_ks.size() > 20);
    for (const double temperature : {0.0, 0.2, 1.8}) CHECK(temperatures.count(temperature) == 1);
    CHECK(temperatures.size() > 100);
    CHECK(*histories.begin() == 100);
    CHECK(*histories.rbegin() == 100'000);
    CHECK(histories.size() > 100);
    CHECK(lists.count(1) == 1);
    CHECK(*lists.rbegin() == kVocab / 2);
}

TEST_CASE("bench cliffs: measures requests dearest first, and the reference decides them alike") {
    const Workplace here;
    here.write("rows.bf16", bf16_rows(kVocab, 3));
    const std::string how =
        GENERATE("--transport rows", "--transport lean", "--writer host --samplers 1 --columns 3");
    const std::string command = kCommand + ("--requests 60 --most 1e9 --json " + how);
    const auto json = json_of(here.run(command + " --verify 3"));
    CHECK(json.at("differs") == false);
    const auto& requests = json.at("requests");
    REQUIRE(requests.size() == 60);
    for (std::size_t i = 0; i < requests.size(); ++i) {
        CHECK(requests[i].at("verified") == 3);
        CHECK(requests[i].at("us") > 0.0);
        CHECK(requests[i].contains("lean") == (how != "--transport rows"));
        if (i > 0) CHECK(requests[i - 1].at("us") >= requests[i].at("us"));
    }
    const auto& dearest = requests.front();
    const std::string number = std::to_string(dearest.at("number").get<int>());
    CHECK_THAT(json.at("reproduce").get<std::string>(), Catch::StartsWith("croupier bench cliffs " + how));
    CHECK_THAT(json.at("reproduce").get<std::string>(), Catch::EndsWith("--seed 1 --only " + number));
    const auto alone = json_of(here.run(command + " --only " + number)).at("requests");
    REQUIRE(alone.size() == 1);
    CHECK(alone.front().at("request") == dearest.at("request"));
}

TEST_CASE("bench cliffs: a request that costs more than is allowed fails the run and is named") {
    const Workplace here;
    here.write("rows.bf16", bf16_rows(kVocab, 3));
    const Ended ended = here.run(std::string(kCommand) + "--requests 30 --most 1");
    CHECK(ended.status == 1);
    CHECK_THAT(ended.output, Catch::Contains("allowed: 1\n  croupier bench cliffs --transport rows"));
}

TEST_CASE("bench cliffs: a decision that differs from the reference fails the run") {
    CliffsReport report;
    report.all.resize(3);
    CHECK_FALSE(report.differs());
    report.all[1].cost.difference = "row 1: token 2 for 3";
    CHECK(report.differs());
}

TEST_CASE("bench cliffs: refuses invalid input by name") {
    const Workplace here;
    here.write("rows.bf16", bf16_rows(kVocab, 1));
    const auto said = [&here](const std::string& arguments) {
        const Ended ended = here.run(kCommand + arguments);
        CHECK(ended.status != 0);
        return ended.output;
    };
    CHECK_THAT(said("--transport ring"), Catch::Contains("--transport"));
    CHECK_THAT(said("--writer gpu"), Catch::Contains("--writer"));
    CHECK_THAT(said("--writer host --transport lean"), Catch::Contains("--transport"));
    CHECK_THAT(said("--requests 0"), Catch::Contains("--requests"));
    CHECK_THAT(said("--verify many"), Catch::Contains("--verify"));
    CHECK_THAT(said("--most 0.5"), Catch::Contains("--most"));
}

}  // namespace croupier::bench

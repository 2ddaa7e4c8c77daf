#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/tools/asker.h"

namespace croupier::tools {

using namespace explain;
namespace {

Json random_logits(std::size_t count, std::uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> logit(0.0, 2.5);
    Json logits = Json::array();
    for (std::size_t i = 0; i < count; ++i) logits.push_back(logit(random));
    return logits;
}

std::vector<Json> many_params() {
    return {
        Json::object(),
        {{"temperature", 0}},
        {{"temperature", 0.7}, {"top_k", 40}, {"top_p", 0.95}, {"min_p", 0.05}},
        {{"top_n_sigma", 1.5}},
        {{"typical_p", 0.6}},
        {{"xtc_probability", 0.5}, {"xtc_threshold", 0.05}},
        {{"dynatemp_range", 0.5}, {"temperature", 0.8}, {"top_k", 100}},
        {{"repetition_penalty", 1.3}, {"frequency_penalty", 0.4}, {"presence_penalty", -0.5}},
        {{"dry_multiplier", 0.8}, {"top_p", 0.9}},
        {{"order", {"top_k", "top_p", "temperature", "penalties"}},
         {"top_k", 30},
         {"top_p", 0.8},
         {"temperature", 1.4},
         {"presence_penalty", 1}},
        {{"logit_bias", {{"3", 5}, {"44", -100}}}, {"bad_words", {Json::array({3, 9})}}},
        {{"allowed_token_ids", {3, 5, 8, 99}}},
        {{"mirostat", 1}},
        {{"mirostat", 2}, {"mirostat_tau", 2}},
        {{"adaptive_target", 0.2}},
        {{"rng", "shvs"}},
        {{"rng", "shvs"}, {"child", 5}, {"top_k", 50}},
        {{"rng", "sglang"}, {"top_k", 50}},
        {{"rng", "sglang"}},
        {{"rng", "vllm"}},
        {{"logprobs_mode", "processed"}, {"top_p", 0.5}},
    };
}

Json full_request(const Json& params, std::uint32_t seed) {
    return {{"logits", random_logits(500, seed)},
            {"params", params},
            {"prompt", {3, 9, 27, 3, 9}},
            {"output", {81, 3, 9}},
            {"seed", seed},
            {"draws", 25},
            {"support", true},
            {"logprobs", 8}};
}

void check_same_logprobs(const Json& one, const Json& other) {
    REQUIRE(one.size() == other.size());
    for (std::size_t i = 0; i < one.size(); ++i) {
        CHECK(one[i][0] == other[i][0]);
        CHECK(one[i][1].get<double>() == Approx(other[i][1].get<double>()).margin(2e-6));
        CHECK(one[i][2] == other[i][2]);
    }
}

// The instruction sets of this machine, taken from the error for an unknown one.
std::vector<std::string> targets_here(Asker& ask) {
    const std::string said = ask.error(R"({"logits":[1],"target":"none"})");
    std::vector<std::string> names(1);
    for (const char c : said.substr(said.find("has ") + 4)) {
        if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
            names.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        } else if (!names.back().empty()) {
            names.emplace_back();
        }
    }
    return names;
}

}  // namespace

TEST_CASE("decide: the fast code agrees with the reference on every instruction set") {
    Asker ask;
    const auto targets = targets_here(ask);
    REQUIRE_FALSE(targets.front().empty());
    for (const Json& params : many_params()) {
        const Json request = full_request(params, 11);
        const Json expected = ask(with(request, "impl", "reference"));
        REQUIRE(expected.contains("tokens"));
        for (const std::string& target : targets) {
            INFO(params.dump() << " on " << target);
            Json got = ask(with(with(request, "impl", "fast"), "target", target));
            REQUIRE(got.contains("tokens"));
            check_same_logprobs(got.at("logprobs"), expected.at("logprobs"));
            got["logprobs"] = expected.at("logprobs");
            CHECK(got == expected);
        }
    }
}

TEST_CASE("decide: the support's probabilities sum to one, and each draw is in it") {
    Asker ask;
    for (const Json& params : many_params()) {
        if (params.contains("xtc_probability")) continue;  // it acts at some positions only
        const Json answer = ask(full_request(params, 3));
        INFO(params.dump());
        double sum = 0.0;
        std::vector<std::int32_t> ids;
        for (const Json& each : answer.at("support")) {
            sum += each[1].get<double>();
            ids.push_back(each[0].get<std::int32_t>());
        }
        CHECK(sum == Approx(1.0).margin(1e-10));
        for (const Json& token : answer.at("tokens")) {
            CHECK(std::find(ids.begin(), ids.end(), token.get<std::int32_t>()) != ids.end());
        }
    }
}

TEST_CASE("decide: several draws have consecutive positions") {
    Asker ask;
    for (const Json& params : many_params()) {
        Json request = full_request(params, 5);
        const Json drawn = ask(request).at("tokens");
        REQUIRE(drawn.size() == 25);
        request["draws"] = 1;
        for (std::uint32_t i = 0; i < 25; ++i) {
            INFO(params.dump() << " at " << i);
            CHECK(ask(with(request, "position", 8 + i)).at("tokens")[0] == drawn[i]);
        }
    }
}

TEST_CASE("decide: a position alone has the same randoms as a history of that length") {
    Asker ask;
    const std::vector<Json> kinds = {Json::object(),    {{"top_p", 0.9}},
                                     {{"rng", "shvs"}}, {{"rng", "sglang"}},
                                     {{"rng", "vllm"}}, {{"xtc_probability", 0.5}, {"xtc_threshold", 0.01}}};
    for (const Json& params : kinds) {
        for (const char* impl : {"fast", "reference"}) {
            Json request = {
                {"logits", random_logits(50, 1)}, {"params", params}, {"impl", impl}, {"prompt", {1}}};
            Json output = Json::array();
            for (int position = 0; position < 40; ++position) {
                INFO(params.dump() << " " << impl << " at " << position);
                CHECK(ask.token(with(request, "position", 1 + position)) ==
                      ask.token(with(request, "output", output)));
                output.push_back(7);
            }
        }
    }
}

TEST_CASE("decide: child i of n has the seed and the number i") {
    Asker ask;
    for (const char* rng : {"race", "shvs"}) {
        for (const Json& filter : {Json::object(), Json{{"top_p", 0.97}}}) {
            Json request = full_request(filter, 9);
            request["params"]["rng"] = rng;
            request["params"]["n"] = 4;
            const Json children = ask(request).at("children");
            REQUIRE(children.size() == 4);
            request["params"].erase("n");
            for (std::uint32_t i = 0; i < 4; ++i) {
                request["params"]["child"] = i;
                CHECK(children[i] == ask(request));
            }
            request["params"].erase("child");
            CHECK(children[0] == ask(request));
            CHECK(children[0].at("tokens") != children[1].at("tokens"));
            CHECK(children[1].at("tokens") != ask(with(request, "seed", 10)).at("tokens"));
        }
    }
}

TEST_CASE("decide: a seed may be a number or its digits as text") {
    Asker ask;
    Json request = full_request({{"temperature", 2}}, 1);
    request["draws"] = 50;
    const std::uint64_t seed = 8667540643943873161U;
    const Json expected = ask(with(request, "seed", seed));
    CHECK(ask(with(request, "seed", std::to_string(seed))) == expected);
    CHECK(ask(with(request, "seed", seed - 1)) != expected);
    request.erase("seed");
    request["params"]["seed"] = std::to_string(seed);
    CHECK(ask(request) == expected);
}

TEST_CASE("decide: child i of n draws with seed + i as other engines do") {
    Asker ask;
    for (const char* rng : {"sglang", "vllm"}) {
        Json request = full_request({{"top_p", 0.97}, {"rng", rng}}, 9);
        request["params"]["n"] = 4;
        request["seed"] = 0xFFFFFFFFFFFFFFFEU;
        const Json children = ask(request).at("children");
        REQUIRE(children.size() == 4);
        request["params"].erase("n");
        for (std::uint64_t i = 0; i < 4; ++i) {
            CHECK(children[i] == ask(with(request, "seed", 0xFFFFFFFFFFFFFFFEU + i)));
        }
        CHECK(children[0].at("tokens") != children[1].at("tokens"));
        request["params"]["child"] = 1;
        CHECK(ask(request).at("error").get<std::string>().find("bad_parameter: child is 1") == 0);
    }
}

TEST_CASE("decide: a request with a hot set draws like a sequence that is admitted with it") {
    Asker ask;
    const Json request = with(full_request(Json::object(), 12), "hot", 64);
    CHECK(ask(request) == ask(with(request, "params", {{"rng", "shvs"}})));
}

TEST_CASE("decide: frequencies of draws match the support's probabilities") {
    Asker ask;
    constexpr int kDraws = 200'000;
    const Json answer =
        ask({{"logits", {2, 1, 0, -1, 1.5}}, {"draws", kDraws}, {"seed", 1}, {"support", true}});
    std::vector<double> counts(5);
    for (const Json& token : answer.at("tokens")) counts[token.get<std::size_t>()] += 1.0;
    double chi_square = 0.0;
    for (const Json& each : answer.at("support")) {
        const double expected = kDraws * each[1].get<double>();
        chi_square += std::pow(counts[each[0].get<std::size_t>()] - expected, 2) / expected;
    }
    CHECK(chi_square < 18.47);  // 4 degrees of freedom, p = 0.001
}

TEST_CASE("decide: a mask's words may be signed, and zero bits exclude ids") {
    Asker ask;
    Json request = {{"logits", random_logits(70, 2)}, {"support", true}, {"mask", {-2147483648, 1, 32}}};
    Json answer = ask(request);
    std::vector<int> ids;
    for (const Json& each : answer.at("support")) ids.push_back(each[0].get<int>());
    std::sort(ids.begin(), ids.end());
    CHECK(ids == std::vector<int>{31, 32, 69});
    CHECK(ask(with(request, "mask", {2147483648U, 1, 32})) == answer);
}

}  // namespace croupier::tools

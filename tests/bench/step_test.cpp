// `croupier bench step`: its results and refusals.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "testing/logit_rows.h"
#include "testing/workplace.h"

namespace croupier::bench {

using namespace testing;
namespace {

constexpr const char* kCommand = "bench step --rows rows.bf16 --vocab 4000 --steps 2 --history 100 ";

}  // namespace

TEST_CASE("bench step: measures a step and a sampler's share for each case and temperature") {
    const Workplace here;
    here.write("rows.bf16", bf16_rows(4000, 3));
    const Ended ended = here.run(std::string(kCommand) +
                                 "--columns 9 --samplers 4 --cases greedy,vllm --temperatures 0.6,1 --json");
    INFO(ended.output);
    REQUIRE(ended.status == 0);
    const auto json = nlohmann::json::parse(ended.output.substr(ended.output.find('{')));
    CHECK(json.at("share_columns") == 3);
    CHECK(json.at("cases").size() == 3);  // greedy has no temperature
    for (const auto& each : json.at("cases")) CHECK(each.at("step").at("ratio") > 0.0);
}

TEST_CASE("bench step: refuses invalid input by name") {
    const Workplace here;
    here.write("rows.bf16", bf16_rows(4000, 1));
    const auto said = [&here](const std::string& arguments) {
        const Ended ended = here.run(kCommand + arguments);
        CHECK(ended.status != 0);
        return ended.output;
    };
    CHECK_THAT(said("--cases ful"), Catch::Contains("there is no case 'ful'"));
    CHECK_THAT(said("--columns 0"), Catch::Contains("--columns"));
    CHECK_THAT(said("--samplers 0"), Catch::Contains("--samplers"));
    CHECK_THAT(said("--temperatures 1000"), Catch::Contains("--temperatures"));
}

}  // namespace croupier::bench

// `croupier bench rounding`: its distributions and refusals.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/rounding/moved_row.h"
#include "testing/logit_rows.h"
#include "testing/workplace.h"

namespace croupier::bench {

using namespace testing;

TEST_CASE("bench rounding: shares follow the filters, and ties go to the smaller id") {
    const MovedRow row(proto::Dtype::fp32, {0.0F, 1.0F, 1.0F, -30.0F});
    proto::SamplingParams params;
    params.top_k = 1;
    CHECK(row.probabilities(params) == std::vector<double>{0.0, 1.0, 0.0, 0.0});
    params.top_k = 0;
    params.top_p = 0.5;
    CHECK(row.probabilities(params) == std::vector<double>{0.0, 0.5, 0.5, 0.0});
    params.top_p = 1.0;
    const std::vector<double> all = row.probabilities(params);
    CHECK(all[1] == all[2]);
    CHECK(all[0] == Approx(1.0 / (1.0 + 2.0 * 2.718281828459045)));
    CHECK(total_variation(all, std::vector<double>{0.0, 0.5, 0.5, 0.0}) == Approx(all[0] + all[3]));
}

TEST_CASE("bench rounding: rounds to the nearest bf16, ties to even") {
    const std::vector<float> exact = {1.0F, 1.0078125F, -3.5F};
    CHECK(rounded_to_bf16(exact) == exact);
    CHECK(rounded_to_bf16(std::vector<float>{1.00390625F, 1.01171875F, 1.004F}) ==
          std::vector<float>{1.0F, 1.015625F, 1.0078125F});
}

TEST_CASE("bench rounding: tokens change as often as the distributions require, and never without a change") {
    const Workplace here;
    here.write("rows.bf16", bf16_rows(4000, 2));
    const std::string inputs = "bench rounding --rows rows.bf16 --vocab 4000 ";
    const auto settings = [&](const std::string& arguments) {
        const Ended ended = here.run(inputs + arguments + " --json");
        INFO(ended.output);
        REQUIRE(ended.status == 0);
        return nlohmann::json::parse(ended.output.substr(ended.output.find('{'))).at("settings");
    };
    for (const auto& each : settings("--sigma 0.3 --draws 4000 --temperatures 1")) {
        INFO(each.dump());
        const auto& noise = each.at("noise");
        CHECK(noise.at("changed").get<double>() >
              noise.at("total_variation").get<double>() - 6.0 * noise.at("deviation").get<double>());
        CHECK(noise.at("total_variation") > 0.01);
    }
    for (const auto& each : settings("--sigma 1e-9 --draws 200"))
        CHECK(each.at("noise").at("changed") == 0.0);
}

TEST_CASE("bench rounding: refuses invalid input by name") {
    const Workplace here;
    here.write("rows.bf16", bf16_rows(4000, 1));
    const std::string inputs = "bench rounding --rows rows.bf16 --vocab 4000 ";
    CHECK_THAT(here.run(inputs + "--sigma 0").output, Catch::Contains("--sigma"));
    CHECK_THAT(here.run(inputs + "--draws 0").output, Catch::Contains("--draws"));
    CHECK_THAT(here.run(inputs + "--rng dice").output, Catch::Contains("--rng"));
    CHECK_THAT(here.run("bench rounding").output, Catch::Contains("--rows is required"));
    CHECK_THAT(here.run("bench rounding --rows rows.bf16").output,
               Catch::Contains("not a whole number of rows of 151936"));
}

}  // namespace croupier::bench

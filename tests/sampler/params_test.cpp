#include "sampler/params.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>

#include "proto/param_ranges.h"

namespace croupier::sampler {
namespace {

using proto::bias_in_range;
using proto::param_fault;
using proto::SamplingParams;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Range {
    std::string field;
    double SamplingParams::*member;
    double lowest;
    double highest;
    double too_low;
    double too_high;
};

}  // namespace

TEST_CASE("each fractional parameter is accepted up to its limits and refused by name beyond them") {
    const auto range =
        GENERATE(Range{"temperature", &SamplingParams::temperature, 0.0, 100.0, -1e-9, 100.1},
                 Range{"top_p", &SamplingParams::top_p, 1e-300, 1.0, 0.0, 1.0001},
                 Range{"min_p", &SamplingParams::min_p, 0.0, 1.0, -0.1, 1.1},
                 Range{"repetition_penalty", &SamplingParams::repetition_penalty, 0.01, 100.0, 0.009, 101.0},
                 Range{"frequency_penalty", &SamplingParams::frequency_penalty, -2.0, 2.0, -2.1, 2.1},
                 Range{"presence_penalty", &SamplingParams::presence_penalty, -2.0, 2.0, -2.1, 2.1});
    SamplingParams params;
    for (const double value : {range.lowest, range.highest}) {
        params.*range.member = value;
        CHECK_FALSE(param_fault(params));
    }
    for (const double value : {range.too_low, range.too_high, kNaN, HUGE_VAL, -HUGE_VAL}) {
        params.*range.member = value;
        const auto fault = param_fault(params);
        REQUIRE(fault);
        CHECK(fault->field == range.field);
    }
}

TEST_CASE("a child is below 1024, and 0 where the rng has no place for it") {
    SamplingParams params;
    params.child = proto::kMostChildren - 1;
    params.rng = GENERATE(proto::Rng::race, proto::Rng::shvs);
    CHECK_FALSE(param_fault(params));
    params.child = proto::kMostChildren;
    REQUIRE(param_fault(params));
    CHECK(describe(*param_fault(params)) == "child is 1024; allowed: 0 to 1023");
    params.rng = GENERATE(proto::Rng::sglang, proto::Rng::vllm);
    params.child = 1;
    REQUIRE(param_fault(params));
    CHECK_THAT(describe(*param_fault(params)), Catch::Contains("child is 1; allowed: 0 with rng sglang"));
    params.child = 0;
    CHECK_FALSE(param_fault(params));
}

TEST_CASE("counts, ids and flags outside their ranges are refused by name") {
    SamplingParams params;
    params.top_k = -1;
    CHECK_FALSE(param_fault(params));
    params.top_k = -2;
    CHECK(param_fault(params)->field == std::string("top_k"));
    params = {};
    params.eos_token_id = -2;
    CHECK(param_fault(params)->field == std::string("eos_token_id"));
    params = {};
    params.flags = 128;
    CHECK(param_fault(params)->field == std::string("flags"));
    params = {};
    params.min_tokens = 5;
    CHECK_FALSE(param_fault(params));
    params.max_tokens = 5;
    CHECK_FALSE(param_fault(params));
    params.max_tokens = 4;
    CHECK(param_fault(params)->field == std::string("min_tokens"));
}

TEST_CASE("a fault's text names the field, its value and its range") {
    SamplingParams params;
    params.temperature = 120.0;
    CHECK(describe(*param_fault(params)) == "temperature is 120; allowed: 0 to 100");
}

TEST_CASE("a bias must be finite and at most 100 either way") {
    CHECK(bias_in_range(100.0F));
    CHECK(bias_in_range(-100.0F));
    CHECK_FALSE(bias_in_range(100.5F));
    CHECK_FALSE(bias_in_range(std::numeric_limits<float>::quiet_NaN()));
    CHECK_FALSE(bias_in_range(-std::numeric_limits<float>::infinity()));
}

TEST_CASE("temperatures below 1e-5 are greedy and those below 0.01 count as 0.01") {
    SamplingParams params;
    params.temperature = 0.99e-5;
    CHECK(is_greedy(params));
    params.temperature = 1e-5;
    CHECK_FALSE(is_greedy(params));
    CHECK(effective_temperature(params) == 0.01);
    params.temperature = 0.02;
    CHECK(effective_temperature(params) == 0.02);
}

TEST_CASE("a request truncates when a filter's value switches it on") {
    SamplingParams params;
    CHECK_FALSE(is_truncated(params));
    SECTION("top_n_sigma") {
        params.top_n_sigma = 0.1;
    }
    SECTION("min_p") {
        params.min_p = 0.1;
    }
    SECTION("top_k") {
        params.top_k = 1;
    }
    SECTION("top_p") {
        params.top_p = 0.999;
    }
    SECTION("typical_p") {
        params.typical_p = 0.999;
    }
    SECTION("XTC") {
        params.xtc_probability = 0.1;
    }
    CHECK(is_truncated(params));
    params.temperature = 0.0;
    CHECK_FALSE(is_truncated(params));
}

TEST_CASE("values that switch a filter off do not truncate") {
    SamplingParams params;
    params.top_n_sigma = 0.0;
    params.top_k = -1;
    params.xtc_probability = 1.0;
    params.xtc_threshold = 0.51;
    params.penalty_last_n = 0;
    params.presence_penalty = 1.0;
    params.dry_penalty_last_n = 0;
    params.dry_multiplier = 1.0;
    params.mirostat = 2;
    CHECK_FALSE(is_truncated(params));
    CHECK_FALSE(takes_step(params, proto::Step::penalties));
    CHECK_FALSE(takes_step(params, proto::Step::dry));
    CHECK(has_mirostat(params));
}

TEST_CASE("a step that the request's order leaves out is not taken") {
    SamplingParams params;
    params.top_k = 5;
    params.min_p = 0.5;
    params.dry_multiplier = 1.0;
    CHECK(takes_step(params, proto::Step::top_k));
    params.order = {proto::Step::dry, proto::Step::min_p};
    CHECK_FALSE(takes_step(params, proto::Step::top_k));
    CHECK(takes_step(params, proto::Step::min_p));
    CHECK_FALSE(takes_step(params, proto::Step::temperature));
    params.temperature = 0.0;
    CHECK_FALSE(takes_step(params, proto::Step::min_p));
    CHECK(takes_step(params, proto::Step::dry));
}

}  // namespace croupier::sampler

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <vector>

#include "chi_square.h"
#include "row_fixture.h"
#include "sampler/reference/decide.h"
#include "testing/deciding.h"

namespace croupier::sampler::test {
namespace {

constexpr std::uint32_t kDraws = 200000;

std::vector<float> test_logits() {
    std::vector<float> logits(150);
    for (std::size_t i = 0; i < logits.size(); ++i) {
        logits[i] = quantised(3.0F * std::sin(static_cast<float>(i) * 1.7F), proto::Dtype::bf16);
    }
    return logits;
}

void check_distribution(const proto::SamplingParams& params, bool permuted) {
    const std::vector<float> logits = test_logits();
    const auto vocab = static_cast<std::uint32_t>(logits.size());
    const RowFixture row(logits, {proto::Dtype::bf16, 64, 2, 1, {70, 80}, permuted}, 17);
    Workspace workspace(vocab);
    Request request;
    request.params = &params;
    request.max_length = 10;
    std::map<std::int32_t, double> observed;
    for (std::uint32_t position = 0; position < kDraws; ++position) {
        request.position_shift = position;
        observed[decide_once(row.view(), request, workspace).token] += 1.0;
    }

    request.wants_support = true;
    const std::vector<Survivor> survivors = reference::decide(row.view(), request).support;
    double statistic = 0.0;
    double seen = 0.0;
    for (const Survivor& survivor : survivors) {
        const double expected = kDraws * survivor.probability;
        REQUIRE(expected > 5.0);
        statistic += std::pow(observed[survivor.token] - expected, 2.0) / expected;
        seen += observed[survivor.token];
    }
    CHECK(seen == kDraws);
    CHECK(statistic < chi_square_limit(static_cast<double>(survivors.size()) - 1.0));
}

}  // namespace

TEST_CASE("draws follow the softmax at the temperature, in any vocabulary order") {
    const bool permuted = GENERATE(false, true);
    proto::SamplingParams params;
    params.seed = GENERATE(1U, 2U, 3U);
    params.child = static_cast<std::uint32_t>(params.seed) - 1U;
    params.temperature = GENERATE(1.0, 1.3);
    check_distribution(params, permuted);
}

TEST_CASE("draws after filters follow the softmax of the survivors") {
    const bool permuted = GENERATE(false, true);
    proto::SamplingParams params;
    params.seed = GENERATE(4U, 5U);
    params.temperature = 0.9;
    SECTION("top-k") {
        params.top_k = 40;
    }
    SECTION("top-p") {
        params.top_p = 0.9;
    }
    SECTION("min-p") {
        params.min_p = 0.1;
    }
    SECTION("all three") {
        params.top_k = 60;
        params.top_p = 0.95;
        params.min_p = 0.02;
    }
    check_distribution(params, permuted);
}

}  // namespace croupier::sampler::test

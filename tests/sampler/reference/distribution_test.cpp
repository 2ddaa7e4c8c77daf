#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "../chi_square.h"
#include "probe.h"
#include "proto/philox.h"

namespace croupier::sampler::test {
namespace {

constexpr std::uint32_t kDraws = 60000;

void check_distribution(const Probe& probe) {
    std::map<std::int32_t, double> observed;
    const RowFixture row(probe.logits, probe.shape);
    Request request = probe.request;
    for (std::uint32_t position = 0; position < kDraws; ++position) {
        request.position_shift = position;
        // Rng shvs's first proposal; the others make all their randoms themselves.
        request.random = proto::random_at(probe.params.seed, position, 0, 0);
        observed[reference::decide(row.view(), request).decision.token] += 1.0;
    }
    double statistic = 0.0;
    double seen = 0.0;
    const Probabilities support = probe.support();
    for (const auto& [token, probability] : support) {
        const double expected = kDraws * probability;
        REQUIRE(expected > 5.0);
        statistic += std::pow(observed[token] - expected, 2.0) / expected;
        seen += observed[token];
    }
    CHECK(seen == kDraws);
    CHECK(statistic < chi_square_limit(static_cast<double>(support.size()) - 1.0));
}

}  // namespace

TEST_CASE("reference: every rng draws by the softmax of what is left") {
    std::vector<float> logits;
    logits.reserve(40);
    for (int i = 0; i < 40; ++i) logits.push_back(2.0F * std::sin(1.7F * static_cast<float>(i)));
    Probe probe(logits);
    probe.params.flags = proto::kNoLogprob;
    probe.params.temperature = 0.9;
    probe.params.seed = GENERATE(1U, 20261121U);
    probe.params.rng = GENERATE(proto::Rng::race, proto::Rng::shvs, proto::Rng::sglang, proto::Rng::vllm);
    probe.params.top_k = GENERATE(0, 12);
    INFO("rng " << static_cast<int>(probe.params.rng));
    check_distribution(probe);
}

}  // namespace croupier::sampler::test

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <utility>

#include "probe.h"
#include "proto/race.h"
#include "sampler/gumbel.h"

namespace croupier::sampler::test {
namespace {

using proto::Rng;

constexpr std::uint64_t kSeeds = 64;

// What each of the first seeds decides.
std::vector<reference::Outcome> outcomes(Probe probe) {
    std::vector<reference::Outcome> all;
    for (probe.params.seed = 0; probe.params.seed < kSeeds; ++probe.params.seed)
        all.push_back(probe.decide());
    return all;
}

std::set<std::int32_t> drawn_tokens(const std::vector<reference::Outcome>& all) {
    std::set<std::int32_t> tokens;
    for (const reference::Outcome& each : all) tokens.insert(each.decision.token);
    return tokens;
}

std::vector<float> wavy_row(std::size_t tokens) {
    std::vector<float> row;
    for (std::size_t i = 0; i < tokens; ++i) row.push_back(2.5F * std::sin(1.7F * static_cast<float>(i)));
    return row;
}

// The first maximum of logits at T = 0.8 and noise, and how far the second is below it.
template <class Noise>
std::pair<std::int32_t, double> perturbed_best(const std::vector<float>& row, const Noise& noise) {
    std::vector<std::pair<double, std::int32_t>> scores;
    for (std::size_t i = 0; i < row.size(); ++i) {
        const double score = static_cast<double>(row[i]) / 0.8 + noise(static_cast<std::uint32_t>(i));
        scores.emplace_back(-score, static_cast<std::int32_t>(i));
    }
    std::sort(scores.begin(), scores.end());
    return {scores[0].second, scores[1].first - scores[0].first};
}

}  // namespace

TEST_CASE("reference: among equal logits the token that arrives first wins, however the ranks hold them") {
    Probe probe(std::vector<float>(300, 1.0F));
    probe.shape.permuted = true;
    probe.shape.shards = {4, 196, 230};
    for (probe.params.seed = 0; probe.params.seed < kSeeds; ++probe.params.seed) {
        const proto::race::Key key = {probe.params.seed, 0, 0};
        std::vector<std::pair<float, std::int32_t>> arrivals;
        arrivals.reserve(300);
        for (std::int32_t token = 0; token < 300; ++token)
            arrivals.emplace_back(proto::race::arrival(key, static_cast<std::uint32_t>(token)), token);
        std::sort(arrivals.begin(), arrivals.end());
        REQUIRE(arrivals[1].first > arrivals[0].first * 1.00001F);
        CHECK(probe.decision().token == arrivals[0].second);
        Probe truncated = probe;
        truncated.params.top_k = 300;
        CHECK(truncated.decision().token == arrivals[0].second);
    }
}

TEST_CASE("reference: the canonical order is by logit, then by id") {
    Probe probe({0.0F, 1.0F, 0.0F, 1.0F});
    CHECK(probe.decide().support.size() == 4);
    probe.params.top_k = 3;
    CHECK(probe.kept() == Ids{1, 3, 0});
    CHECK(drawn_tokens(outcomes(probe)) == std::set<std::int32_t>{0, 1, 3});
    probe.params.top_k = 1;
    CHECK(probe.kept() == Ids{1});
    CHECK(drawn_tokens(outcomes(probe)) == std::set<std::int32_t>{1});
}

TEST_CASE("reference: greedy takes the lowest id of the largest logits, whatever else is asked") {
    Probe probe({1.0F, 3.0F, 3.0F, 2.0F});
    probe.params.temperature = 0.99e-5;
    probe.params.xtc_probability = 1.0;
    probe.params.mirostat = 2;
    probe.params.rng = GENERATE(Rng::race, Rng::shvs, Rng::sglang, Rng::vllm);
    probe.params.seed = GENERATE(0U, 1U, 2U, 3U);
    const reference::Outcome outcome = probe.decide();
    CHECK(outcome.decision.token == 1);
    CHECK(outcome.decision.flags == proto::kGreedy);
    CHECK(outcome.feedback.weight == 0.0);
    CHECK(probe.kept() == Ids{1});
}

TEST_CASE("reference: greedy takes penalties and DRY first, if they are in the order") {
    Probe probe({1.0F, 1.5F});
    const Ids output = {1};
    probe.request.output = output;
    probe.params.temperature = 0.0;
    probe.params.presence_penalty = 1.0;
    CHECK(probe.decision().token == 0);
    probe.params.order = order_with({proto::Step::temperature});
    CHECK(probe.decision().token == 1);
}

TEST_CASE(
    "reference: rng race is the argmax of x / T - ln of the arrival at the token's position and child") {
    Probe probe(wavy_row(60));
    probe.params.temperature = 0.8;
    probe.params.seed = 1099511627783ULL;
    const Ids prompt = {1, 2, 3};
    probe.request.prompt = prompt;
    Ids output;
    std::set<std::int32_t> drawn;
    for (std::uint32_t position = 3; position < 53; ++position) {
        probe.params.child = position % 3 == 0 ? position : 0;
        const proto::race::Key key = {probe.params.seed, position, probe.params.child};
        const auto best = perturbed_best(probe.logits, [&key](std::uint32_t token) {
            return -std::log(static_cast<double>(proto::race::arrival(key, token)));
        });
        REQUIRE(best.second > 1e-5);
        probe.request.output = output;
        CHECK(probe.decision().token == best.first);
        drawn.insert(best.first);
        output.push_back(0);
    }
    CHECK(drawn.size() > 15);
}

TEST_CASE("reference: a race among what a filter leaves is the race among all without those outside") {
    Probe probe(wavy_row(60));
    Probe truncated = probe;
    truncated.params.top_p = 0.5;
    const Ids kept = truncated.kept();
    REQUIRE(kept.size() > 5);
    int alike = 0;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
        probe.params.seed = truncated.params.seed = seed;
        const std::int32_t winner = probe.decision().token;
        const std::int32_t token = truncated.decision().token;
        CHECK(std::find(kept.begin(), kept.end(), token) != kept.end());
        if (std::find(kept.begin(), kept.end(), winner) == kept.end()) continue;
        CHECK(token == winner);
        ++alike;
    }
    CHECK(alike > 10);
    CHECK(alike < static_cast<int>(kSeeds));
}

TEST_CASE("reference: rng sglang is the argmax of x / T and the hash's noise at the input token's position") {
    Probe probe(wavy_row(60));
    probe.params.temperature = 0.8;
    probe.params.rng = Rng::sglang;
    probe.params.seed = 1099511627783ULL;
    const Ids prompt = {1, 2, 3};
    probe.request.prompt = prompt;
    Ids output;
    for (std::uint32_t position = 2; position < 52; ++position) {
        const auto best = perturbed_best(probe.logits, [position](std::uint32_t token) {
            const double u = murmur_hash(1099511627783ULL, position, token) / 4294967295.0;
            return -std::log(-std::min(std::log(u), -0x1p-32));
        });
        REQUIRE(best.second > 1e-9);
        probe.request.output = output;
        CHECK(probe.decision().token == best.first);
        output.push_back(0);
    }
}

TEST_CASE("reference: rng vllm is the argmax of x / T - ln(-ln(1 - u)), to a float's precision") {
    Probe probe(wavy_row(60));
    probe.params.temperature = 0.8;
    probe.params.rng = Rng::vllm;
    probe.params.seed = 99;
    const Ids prompt = {5};
    probe.request.prompt = prompt;
    Ids output;
    for (std::uint32_t position = 0; position < 50; ++position) {
        const auto best = perturbed_best(probe.logits, [position](std::uint32_t token) {
            return -std::log(-std::log1p(-(murmur_hash(99, position, token) + 0.5) * 0x1p-32));
        });
        REQUIRE(best.second > 1e-4);
        probe.request.output = output;
        CHECK(probe.decision().token == best.first);
        output.push_back(0);
    }
}

TEST_CASE("reference: the perturbed argmax is over the survivors") {
    Probe probe(wavy_row(60));
    probe.params.top_k = 2;
    probe.params.rng = GENERATE(Rng::sglang, Rng::vllm);
    const Ids kept = probe.kept();
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        probe.params.seed = seed;
        const std::int32_t token = probe.decision().token;
        CHECK(std::find(kept.begin(), kept.end(), token) != kept.end());
    }
}

TEST_CASE("reference: mirostat v2 drops what surprises by more than mu") {
    Probe probe = Probe::of_probabilities({0.4, 0.3, 0.2, 0.1});  // 1.32, 1.74, 2.32 and 3.32 bits
    probe.params.mirostat = 2;
    probe.params.mirostat_tau = 1.0;
    probe.params.mirostat_eta = 0.5;
    CHECK(probe.kept() == Ids{0, 1});  // mu is 2 tau
    probe.request.feedback = {2.5, 1.0};
    CHECK(probe.kept() == Ids{0, 1, 2});
    probe.request.feedback = {-7.0, 1.0};
    CHECK(probe.kept() == Ids{0});
}

TEST_CASE("reference: mirostat moves mu by the surprise of the renormalised probability") {
    Probe probe = Probe::of_probabilities({0.4, 0.3, 0.2, 0.1});
    probe.params.mirostat = 2;
    probe.params.mirostat_tau = 1.0;
    probe.params.mirostat_eta = 0.5;
    const std::vector<reference::Outcome> all = outcomes(probe);
    for (const reference::Outcome& each : all) {
        const double share = each.decision.token == 0 ? 4.0 / 7.0 : 3.0 / 7.0;
        CHECK(each.feedback.level == Approx(2.0 - 0.5 * (-std::log2(share) - 1.0)));
        CHECK(each.feedback.weight == 1.0);
    }
    CHECK(drawn_tokens(all) == std::set<std::int32_t>{0, 1});
}

TEST_CASE("reference: mirostat v1 keeps k by the estimate of Zipf's exponent") {
    std::vector<double> row;
    for (int i = 1; i <= 300; ++i) row.push_back(std::pow(i, -1.5));
    Probe probe = Probe::of_probabilities(row);
    probe.params.mirostat = 1;
    // The estimate of such a row is its exponent.
    const auto k_at = [](double mu) {
        return std::pow(0.5 * std::exp2(mu) / (1.0 - std::pow(300.0, -0.5)), 1.0 / 1.5);
    };
    for (const double mu : {1.5, 3.0, 6.0}) {
        probe.request.feedback = {mu, 1.0};
        CHECK(probe.kept().size() == static_cast<std::size_t>(k_at(mu)));
    }
    probe.request.feedback = {40.0, 1.0};
    CHECK(probe.kept().size() == 300);
    probe.request.feedback = {-40.0, 1.0};
    CHECK(probe.kept().size() == 1);
}

TEST_CASE("reference: mirostat v1 takes rows of one token and of equal logits") {
    Probe one({-INFINITY, 1.0F});
    one.params.mirostat = 1;
    CHECK(one.decision().token == 1);
    Probe flat(std::vector<float>(50, 1.0F));
    flat.params.mirostat = 1;
    CHECK(flat.decision().error == proto::DecisionError::none);
}

TEST_CASE("reference: adaptive-p aims at probabilities near its target") {
    Probe probe = Probe::of_probabilities({0.6, 0.3, 0.1});
    probe.params.adaptive_target = 0.3;
    probe.params.adaptive_decay = 0.9;
    // At first as if all before had been on target: logits 0, 5 and 5 - 10 (4/9) / (5/3).
    const double third = std::exp(5.0 - 40.0 / 9.0 / (5.0 / 3.0));
    const double total = 1.0 + std::exp(5.0) + third;
    check_support(probe, {{0, 1 / total}, {1, std::exp(5.0) / total}, {2, third / total}});
    const std::vector<double> own = {0.6, 0.3, 0.1};
    const std::vector<reference::Outcome> all = outcomes(probe);
    for (const reference::Outcome& each : all) {
        const double drawn = own.at(static_cast<std::size_t>(each.decision.token));
        CHECK(each.feedback.level == Approx(drawn + 0.9 * 3.0));
        CHECK(each.feedback.weight == Approx(10.0));
    }
    CHECK(drawn_tokens(all) == std::set<std::int32_t>{0, 1, 2});

    probe.request.feedback = {3.6, 9.0};  // 0.4 on average: the next aims at 0.2
    const auto logit = [](double p) {
        const double d = std::abs(p - 0.2) / 0.3;
        return 5.0 - 10.0 * d * d / (1.0 + d);
    };
    const double sum = std::exp(logit(0.6)) + std::exp(logit(0.3)) + std::exp(logit(0.1));
    check_support(
        probe,
        {{0, std::exp(logit(0.6)) / sum}, {1, std::exp(logit(0.3)) / sum}, {2, std::exp(logit(0.1)) / sum}});
}

TEST_CASE("reference: without mirostat and adaptive-p the feedback is left alone") {
    Probe probe = Probe::of_probabilities({0.5, 0.5});
    probe.request.feedback = {7.0, 8.0};
    CHECK(probe.decide().feedback.level == 7.0);
    CHECK(probe.decide().feedback.weight == 8.0);
}

TEST_CASE("reference: the same row in any format, tile, batch and order has one truncated draw") {
    std::vector<float> row;
    row.reserve(100);
    for (int i = 0; i < 100; ++i) row.push_back(static_cast<float>(i * 37 % 29) * 0.25F - 3.0F);
    Probe plain(row);
    plain.params.top_p = 0.9;
    plain.params.seed = GENERATE(1U, 2U, 3U, 4U, 5U);
    const reference::Outcome expected = plain.decide();
    for (const auto dtype : {proto::Dtype::bf16, proto::Dtype::fp16, proto::Dtype::fp32}) {
        for (const std::uint32_t tile : {1U, 16U, 64U}) {
            Probe probe = plain;
            probe.shape = {dtype, tile, 3, 1, {40, 60}, true};
            const reference::Outcome outcome = probe.decide();
            CHECK(outcome.decision.token == expected.decision.token);
            CHECK(outcome.decision.logprob == expected.decision.logprob);
            CHECK(outcome.support.size() == expected.support.size());
        }
    }
}

}  // namespace croupier::sampler::test

#include <catch2/catch.hpp>
#include <cmath>

#include "probe.h"
#include "sampler/gumbel.h"

namespace croupier::sampler::test {
namespace {

using proto::Step;

const std::vector<double> kTenths = {0.1, 0.2, 0.3, 0.4};

Probabilities softened(const std::vector<double>& probabilities, double temperature) {
    double total = 0.0;
    for (const double p : probabilities) total += std::pow(p, 1.0 / temperature);
    Probabilities result;
    for (std::size_t i = 0; i < probabilities.size(); ++i) {
        result[static_cast<std::int32_t>(i)] = std::pow(probabilities[i], 1.0 / temperature) / total;
    }
    return result;
}

}  // namespace

TEST_CASE("reference: top_k keeps exactly k, the lower ids of equal logits") {
    Probe probe = Probe::of_probabilities(kTenths);
    probe.params.top_k = 1;
    check_support(probe, {{3, 1.0}});
    probe.params.top_k = 3;
    check_support(probe, {{3, 0.444444}, {2, 0.333333}, {1, 0.222222}});
    probe.params.top_k = GENERATE(4, 100, 0, -1);
    check_support(probe, {{3, 0.4}, {2, 0.3}, {1, 0.2}, {0, 0.1}});

    Probe ties({1.0F, 2.0F, 1.0F, 2.0F, 1.0F});
    ties.params.top_k = 4;
    CHECK(ties.kept() == Ids{1, 3, 0, 2});
}

TEST_CASE("reference: top_p keeps a token if the mass before it is below p") {
    Probe probe = Probe::of_probabilities(kTenths);
    probe.params.top_p = 0.001;
    check_support(probe, {{3, 1.0}});
    probe.params.top_p = 0.69;
    check_support(probe, {{3, 0.571429}, {2, 0.428571}});
    probe.params.top_p = 0.71;
    check_support(probe, {{3, 0.444444}, {2, 0.333333}, {1, 0.222222}});
    probe.params.top_p = 0.8;
    check_support(probe, {{3, 0.444444}, {2, 0.333333}, {1, 0.222222}});

    Probe ties(std::vector<float>(8, 1.0F));
    ties.params.top_p = 0.5;  // the fifth has exactly p before it
    CHECK(ties.kept() == Ids{0, 1, 2, 3});
}

TEST_CASE("reference: top_p walks as far into a flat row as it must") {
    Probe probe(std::vector<float>(30000, 0.5F));
    probe.params.top_p = 0.75;
    const Ids kept = probe.kept();
    CHECK(kept.size() == 22500);
    CHECK(kept.back() == 22499);
}

TEST_CASE("reference: top_p is over the survivors of min_p and top_k, renormalised") {
    Probe probe = Probe::of_probabilities(kTenths);
    probe.params.top_k = 3;
    probe.params.top_p = 0.76;  // 0.777 are before the third
    CHECK(probe.kept() == Ids{3, 2});
    probe.params.top_p = 0.79;
    CHECK(probe.kept() == Ids{3, 2, 1});
}

TEST_CASE("reference: min_p keeps what is at least its share of the largest") {
    Probe probe = Probe::of_probabilities(kTenths);
    const auto kept = [&probe](double min_p) {
        probe.params.min_p = min_p;
        return probe.kept();
    };
    CHECK(kept(0.24) == Ids{3, 2, 1, 0});
    CHECK(kept(0.26) == Ids{3, 2, 1});
    CHECK(kept(0.49) == Ids{3, 2, 1});
    CHECK(kept(0.51) == Ids{3, 2});
    CHECK(kept(0.74) == Ids{3, 2});
    CHECK(kept(0.76) == Ids{3});
    CHECK(kept(1.0) == Ids{3});
}

TEST_CASE("reference: typical_p keeps what is nearest to the entropy") {
    Probe probe = Probe::of_probabilities({0.97, 0.01, 0.01, 0.01});
    probe.params.typical_p = 0.5;
    check_support(probe, {{0, 1.0}});
    Probe second = Probe::of_probabilities({0.4, 0.2, 0.2, 0.2});
    second.params.typical_p = 0.5;
    check_support(second, {{1, 0.333333}, {2, 0.333333}, {3, 0.333333}});
    second.params.typical_p = 0.61;
    check_support(second, {{0, 0.4}, {1, 0.2}, {2, 0.2}, {3, 0.2}});
    second.params.typical_p = 0.1;  // of the three at one distance the first
    check_support(second, {{1, 1.0}});
}

TEST_CASE("reference: XTC drops all that reach the threshold but the least likely of them") {
    Probe probe = Probe::of_probabilities({0.4, 0.3, 0.2, 0.1});
    probe.params.xtc_probability = 1.0;
    const auto kept = [&probe](double threshold) {
        probe.params.xtc_threshold = threshold;
        return probe.kept();
    };
    CHECK(kept(0.09) == Ids{3});
    CHECK(kept(0.19) == Ids{2, 3});
    CHECK(kept(0.29) == Ids{1, 2, 3});
    CHECK(kept(0.39) == Ids{0, 1, 2, 3});
    CHECK(kept(0.5) == Ids{0, 1, 2, 3});

    Probe ties(std::vector<float>(4, 1.0F));
    ties.params.xtc_probability = 1.0;
    ties.params.xtc_threshold = 0.25;
    CHECK(ties.kept() == Ids{3});
}

TEST_CASE("reference: XTC acts when its own stream's draw is at most its probability") {
    Probe probe = Probe::of_probabilities({0.4, 0.3, 0.2, 0.1});
    probe.params.seed = 77;
    probe.params.child = 5;
    probe.params.xtc_probability = 0.5;
    probe.params.xtc_threshold = 0.05;
    Ids output;
    int acted = 0;
    for (std::uint32_t position = 0; position < 64; ++position) {
        probe.request.output = output;
        const bool acts = open_uniform(proto::random_at(77, position, 5, 3)) <= 0.5;
        CHECK(probe.kept().size() == (acts ? 1U : 4U));
        acted += acts ? 1 : 0;
        output.push_back(0);
    }
    CHECK(acted > 10);
    CHECK(acted < 54);
}

TEST_CASE("reference: a shift moves the randoms' position and nothing else") {
    Probe probe = Probe::of_probabilities({0.4, 0.3, 0.2, 0.1});
    probe.params.xtc_probability = 0.5;
    probe.params.xtc_threshold = 0.05;
    for (std::uint32_t shift = 0; shift < 16; ++shift) {
        probe.request.position_shift = shift;
        CHECK(probe.kept().size() == (open_uniform(proto::random_at(0, shift, 0, 3)) <= 0.5 ? 1U : 4U));
        CHECK(probe.decision().position == 0);
    }
}

TEST_CASE("reference: top_n_sigma drops what is more than n deviations below the largest logit") {
    Probe probe = Probe::of_probabilities(kTenths);
    probe.params.top_n_sigma = 1.0;
    check_support(probe, {{2, 0.428571}, {3, 0.571429}});
    probe.params.top_n_sigma = 3.0;
    check_support(probe, {{0, 0.1}, {1, 0.2}, {2, 0.3}, {3, 0.4}});

    // Mean 2, population deviation 2: the limit is 4 - n * 2, and a token on it stays.
    Probe exact({0.0F, 0.0F, 4.0F, 4.0F, 2.0F, -INFINITY});
    exact.params.top_n_sigma = 1.25;
    const double sigma = std::sqrt(16.0 / 5.0);
    CHECK(4.0 - 1.25 * sigma < 2.0);
    CHECK(exact.kept() == Ids{2, 3, 4});
    exact.params.top_n_sigma = 1.0;
    CHECK(exact.kept() == Ids{2, 3});
}

TEST_CASE("reference: the deviation is of the logits before the temperature") {
    Probe probe = Probe::of_probabilities(kTenths);
    probe.params.top_n_sigma = 1.0;
    probe.params.temperature = GENERATE(0.1, 1.0, 10.0);
    CHECK(probe.kept() == Ids{3, 2});
}

TEST_CASE("reference: the temperature divides logits, and counts as 0.01 from 1e-5 to there") {
    Probe probe = Probe::of_probabilities(kTenths);
    probe.params.temperature = GENERATE(0.5, 1.0, 2.0);
    check_support(probe, softened(kTenths, probe.params.temperature));
    Probe low({0.0F, 0.01F});
    low.params.temperature = 1e-5;
    check_support(low, {{0, 1 / (1 + std::exp(1.0))}, {1, 1 / (1 + std::exp(-1.0))}});
}

TEST_CASE("reference: the dynamic temperature follows the entropy's share of its largest") {
    const std::vector<double> row = {0.5, 0.25, 0.125, 0.125};  // 1.75 bits of 2
    Probe probe = Probe::of_probabilities(row);
    probe.params.dynatemp_range = 0.5;
    check_support(probe, softened(row, 0.5 + 0.875));
    probe.params.dynatemp_exponent = 2.0;
    check_support(probe, softened(row, 0.5 + 0.875 * 0.875));
    probe.params.dynatemp_exponent = 0.0;
    check_support(probe, softened(row, 1.5));
    probe.params.dynatemp_exponent = 1.0;
    probe.params.dynatemp_range = 3.0;  // from 0 to 4
    check_support(probe, softened(row, 4 * 0.875));
}

TEST_CASE("reference: the dynamic temperature of a row without entropy is its lowest, at least 0.01") {
    Probe probe({0.0F, 1000.0F});
    probe.params.dynatemp_range = 1.0;
    check_support(probe, {{0, 0.0}, {1, 1.0}});
    Probe one({-INFINITY, 3.0F});
    one.params.dynatemp_range = 1.0;
    check_support(one, {{1, 1.0}});
}

TEST_CASE("reference: steps follow the request's order") {
    Probe probe = Probe::of_probabilities(kTenths);
    probe.params.temperature = 2.0;
    probe.params.min_p = 0.45;  // halves at T = 2 what is a quarter at T = 1
    CHECK(probe.kept() == Ids{3, 2, 1, 0});
    probe.params.order = order_with({Step::min_p, Step::temperature});
    CHECK(probe.kept() == Ids{3, 2, 1});
    const double total = 2.0 + std::sqrt(3.0) + std::sqrt(2.0);
    check_support(probe, {{3, 2 / total}, {2, std::sqrt(3.0) / total}, {1, std::sqrt(2.0) / total}});
}

TEST_CASE("reference: a step that is not in the order is off") {
    Probe probe = Probe::of_probabilities(kTenths);
    probe.params.temperature = 2.0;
    probe.params.top_k = 1;
    probe.params.order = order_with({Step::penalties});
    check_support(probe, {{0, 0.1}, {1, 0.2}, {2, 0.3}, {3, 0.4}});
    CHECK((probe.decision().flags & proto::kTruncated) == 0);
    probe.params.order = order_with({Step::top_k});
    CHECK((probe.decision().flags & proto::kTruncated) != 0);
}

TEST_CASE("reference: penalties after a filter move the survivors, and the next filter sees them moved") {
    Probe probe = Probe::of_probabilities(kTenths);
    const Ids output = {3};
    probe.request.output = output;
    probe.params.presence_penalty = 2.0;
    probe.params.top_k = 2;
    CHECK(probe.kept() == Ids{2, 1});
    probe.params.order = order_with({Step::top_k, Step::penalties});
    CHECK(probe.kept() == Ids{2, 3});
    probe.params.min_p = 0.9;
    probe.params.order = order_with({Step::top_k, Step::penalties, Step::min_p});
    CHECK(probe.kept() == Ids{2});
}

TEST_CASE("reference: llama.cpp's order drops before it heats") {
    Probe probe = Probe::of_probabilities(kTenths);
    probe.params.temperature = 100.0;
    probe.params.top_p = 0.65;
    CHECK(probe.kept() == Ids{3, 2, 1});
    probe.params.order =
        order_with({Step::penalties, Step::dry, Step::top_n_sigma, Step::top_k, Step::typical_p, Step::top_p,
                    Step::min_p, Step::xtc, Step::temperature});
    CHECK(probe.kept() == Ids{3, 2});
}

}  // namespace croupier::sampler::test

// The race's arrivals are independent exponentials, whatever their blocks, keys and positions share.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "chi_square.h"
#include "proto/race.h"
#include "sampler/race_arrivals.h"

namespace croupier::sampler::test {
namespace {

namespace race = proto::race;
using race::Key;

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Rows of float logits that race by the vector passes, block by block.
class Row {
  public:
    Row(std::vector<float> logits, float temperature)
        : logits_(std::move(logits)), temperature_(temperature) {
        ids_ = static_cast<std::uint32_t>(logits_.size());
        logits_.resize((logits_.size() + kBlock - 1) / kBlock * kBlock, kMinusInfinity);
    }

    std::uint32_t winner(const Key& key) const {
        std::uint32_t best = 0;
        float highest = kMinusInfinity;
        OpenedBlock opened{};
        for (std::uint32_t first = 0; first < logits_.size(); first += kBlock) {
            const auto* elements = reinterpret_cast<const std::byte*>(logits_.data() + first);
            open_block(proto::Dtype::fp32, elements, key, first / kBlock, temperature_, highest, opened);
            for (std::uint32_t i = 0; i < std::min(kBlock, ids_ - first); ++i) {
                if (opened.scores[i] <= highest) continue;
                highest = opened.scores[i];
                best = first + i;
            }
        }
        return best;
    }

  private:
    std::vector<float> logits_;
    std::uint32_t ids_ = 0;
    float temperature_;
};

// Of counts against the probabilities that are to be theirs.
double chi_square(const std::vector<double>& counts, const std::vector<double>& probabilities) {
    const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
    double statistic = 0.0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
        const double expected = total * probabilities[i];
        REQUIRE(expected > 5.0);
        statistic += std::pow(counts[i] - expected, 2.0) / expected;
    }
    return statistic;
}

void check_distribution(const std::vector<double>& counts, const std::vector<double>& probabilities) {
    const double freedom = static_cast<double>(counts.size()) - 1.0;
    const double statistic = chi_square(counts, probabilities);
    INFO("chi-square " << statistic << " at " << freedom << " degrees");
    CHECK(statistic < chi_square_limit(freedom));
}

void check_uniform(const std::vector<double>& counts) {
    check_distribution(counts, std::vector(counts.size(), 1.0 / static_cast<double>(counts.size())));
}

// Which pairs there were, each of two that are uniform over `kinds`: they are so together if the two are
// independent.
class Pairs {
  public:
    explicit Pairs(std::uint32_t kinds) : kinds_(kinds), counts_(std::size_t{kinds} * kinds) {}

    void add(std::uint32_t one, std::uint32_t other) { counts_[one * kinds_ + other] += 1.0; }
    void check() const { check_uniform(counts_); }

  private:
    std::uint32_t kinds_;
    std::vector<double> counts_;
};

// Of its equally likely quantiles, the one in which an arrival lies.
std::uint32_t quantile_of(float ln_arrival, std::uint32_t quantiles) {
    const double below = -std::expm1(-std::exp(static_cast<double>(ln_arrival)));
    return std::min(static_cast<std::uint32_t>(below * quantiles), quantiles - 1);
}

std::vector<float> test_logits(std::size_t count) {
    std::vector<float> logits(count);
    for (std::size_t i = 0; i < count; ++i) logits[i] = 1.7F * std::sin(static_cast<float>(i) * 1.7F);
    return logits;
}

}  // namespace

TEST_CASE("of equal logits each wins alike, over one, two and three blocks") {
    const auto blocks = GENERATE(1U, 2U, 3U);
    const std::size_t ids = std::size_t{blocks} * kBlock;
    const Row row(std::vector(ids, 1.5F), 1.0F);
    std::vector<double> wins(ids);
    for (std::uint32_t position = 0; position < 200000; ++position) {
        wins[row.winner({blocks, position, 0})] += 1.0;
    }
    check_uniform(wins);
}

TEST_CASE("winners follow the softmax at the temperature, over a last block that is partly padding") {
    constexpr double kTemperature = 0.7;
    const std::vector<float> logits = test_logits(150);
    std::vector<double> probabilities(logits.size());
    std::transform(logits.begin(), logits.end(), probabilities.begin(),
                   [](float logit) { return std::exp(static_cast<double>(logit) / kTemperature); });
    const double sum = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
    for (double& each : probabilities) each /= sum;
    const Row row(logits, static_cast<float>(kTemperature));
    const auto seed = GENERATE(11U, 12U);
    std::vector<double> wins(logits.size());
    for (std::uint32_t position = 0; position < 400000; ++position) {
        wins[row.winner({seed, position, 3})] += 1.0;
    }
    check_distribution(wins, probabilities);
}

TEST_CASE("each id's arrival is an exponential, by its quantiles") {
    constexpr std::uint32_t kQuantiles = 1000;
    constexpr std::uint32_t kPositions = 20000;
    std::vector<std::uint32_t> ids(std::size_t{2} * kBlock);
    std::iota(ids.begin(), ids.end(), 5 * kBlock);
    std::vector<float> ln_arrivals(ids.size());
    std::vector<double> of_all(kQuantiles);
    std::vector<std::vector<double>> of_each(ids.size(), std::vector<double>(32));
    for (std::uint32_t position = 0; position < kPositions; ++position) {
        make_arrivals({21, position, 0}, ids, ln_arrivals);
        for (std::size_t i = 0; i < ids.size(); ++i) {
            of_all[quantile_of(ln_arrivals[i], kQuantiles)] += 1.0;
            of_each[i][quantile_of(ln_arrivals[i], 32)] += 1.0;
        }
    }
    check_uniform(of_all);
    for (const std::vector<double>& each : of_each) check_uniform(each);
}

TEST_CASE("two ids' arrivals are independent, of one block and of two") {
    constexpr std::uint32_t kQuantiles = 16;
    constexpr std::uint32_t kPositions = 400000;
    // Words of one counter; of two; the blocks' words of one counter; of two.
    constexpr std::array<std::array<std::uint32_t, 2>, 4> kIds = {{{4, 5}, {3, 50}, {10, 74}, {200, 264}}};
    std::vector<Pairs> pairs(kIds.size(), Pairs(kQuantiles));
    std::array<float, 2> ln_arrivals{};
    for (std::uint32_t position = 0; position < kPositions; ++position) {
        for (std::size_t i = 0; i < kIds.size(); ++i) {
            make_arrivals({31, position, 0}, kIds[i], ln_arrivals);
            pairs[i].add(quantile_of(ln_arrivals[0], kQuantiles), quantile_of(ln_arrivals[1], kQuantiles));
        }
    }
    for (const Pairs& each : pairs) each.check();
}

TEST_CASE("the winner of a position says nothing about the next one's, nor a child's or a seed's about it") {
    constexpr std::uint32_t kPairs = 200000;
    const Row row(std::vector<float>(kBlock), 1.0F);
    Pairs positions(kBlock);
    Pairs children(kBlock);
    Pairs seeds(kBlock);
    for (std::uint32_t i = 0; i < kPairs; ++i) {
        positions.add(row.winner({41, 2 * i, 0}), row.winner({41, 2 * i + 1, 0}));
        const std::uint32_t child = i % 512 * 2;
        children.add(row.winner({42, i / 512, child}), row.winner({42, i / 512, child + 1}));
        seeds.add(row.winner({std::uint64_t{2} * i, 7, 0}), row.winner({std::uint64_t{2} * i + 1, 7, 0}));
    }
    positions.check();
    children.check();
    seeds.check();
}

}  // namespace croupier::sampler::test

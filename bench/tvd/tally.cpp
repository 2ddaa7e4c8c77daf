#include "bench/tvd/tally.h"

#include <algorithm>
#include <cmath>

namespace croupier::bench {
namespace {

double distance(const std::vector<std::uint64_t>& counts, std::uint64_t draws,
                const std::vector<double>& expected, std::uint32_t steps) {
    double sum = 0.0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
        sum += std::abs(static_cast<double>(counts[i]) / static_cast<double>(draws) - expected[i] / steps);
    }
    return sum / 2.0;
}

}  // namespace

std::vector<std::uint8_t> cells_of(const std::vector<double>& probabilities,
                                   std::span<const std::uint32_t> order) {
    std::vector<std::uint8_t> cells(probabilities.size());
    double running = 0.0;
    for (std::size_t i = 0; i < probabilities.size(); ++i) {
        const std::size_t id = order.empty() ? i : order[i];
        const double middle = running + probabilities[id] / 2.0;
        running += probabilities[id];
        cells[id] = static_cast<std::uint8_t>(std::min(middle * kCells, kCells - 1.0));
    }
    return cells;
}

void Expected::add(const std::vector<double>& probabilities, const std::vector<std::uint8_t>& cells) {
    ++steps;
    for (std::size_t i = 0; i < probabilities.size(); ++i) {
        by_token[i] += probabilities[i];
        by_cell[cells[i]] += probabilities[i];
    }
}

void Tally::add(const Tally& other) {
    draws += other.draws;
    for (std::size_t i = 0; i < by_token.size(); ++i) by_token[i] += other.by_token[i];
    for (std::size_t i = 0; i < by_cell.size(); ++i) by_cell[i] += other.by_cell[i];
}

Distance total_variation(const Tally& tally, const Expected& expected) {
    return {distance(tally.by_token, tally.draws, expected.by_token, expected.steps),
            distance(tally.by_cell, tally.draws, expected.by_cell, expected.steps)};
}

Noise noise_of(const std::vector<double>& values) {
    const auto n = static_cast<double>(values.size());
    Noise noise;
    for (const double value : values) noise.mean += value / n;
    for (const double value : values) noise.deviation += std::pow(value - noise.mean, 2.0) / (n - 1.0);
    noise.deviation = std::sqrt(noise.deviation);
    return noise;
}

}  // namespace croupier::bench

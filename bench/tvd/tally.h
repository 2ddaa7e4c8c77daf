// Draws of many steps together, and how far they lie from what was expected of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace croupier::bench {

// A step's tokens in parts that each hold about so much of its mass, hottest first: few numbers
// to compare, so that the noise of counting them is small, and a hot set's edge lies between two of them.
constexpr std::uint32_t kCells = 64;

// Of a step, by id. `order`: all ids, as the parts take them up; empty: ascending.
std::vector<std::uint8_t> cells_of(const std::vector<double>& probabilities,
                                   std::span<const std::uint32_t> order = {});

// Per draw; `by_token` by id.
struct Expected {
    explicit Expected(std::uint32_t vocab) : by_token(vocab), by_cell(kCells) {}
    void add(const std::vector<double>& probabilities, const std::vector<std::uint8_t>& cells);

    std::uint32_t steps = 0;
    std::vector<double> by_token;
    std::vector<double> by_cell;
};

struct Tally {
    explicit Tally(std::uint32_t vocab) : by_token(vocab), by_cell(kCells) {}
    void add(std::uint32_t id, const std::vector<std::uint8_t>& cells) {
        ++draws;
        ++by_token[id];
        ++by_cell[cells[id]];
    }
    void add(const Tally& other);

    std::uint64_t draws = 0;
    std::vector<std::uint64_t> by_token;
    std::vector<std::uint64_t> by_cell;
};

struct Distance {
    double by_token;
    double by_cell;
};

// Half the sum of all differences between the shares of the draws and those that were expected.
Distance total_variation(const Tally& tally, const Expected& expected);

struct Noise {
    double mean = 0.0;
    double deviation = 0.0;  // of one
};
Noise noise_of(const std::vector<double>& values);

}  // namespace croupier::bench

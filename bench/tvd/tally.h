// Counts draws over many steps and measures their distance from the expected counts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace croupier::bench {

// Divides a step's tokens into cells of about equal mass, hottest first. Few cells have little counting
// noise, and the edge of a hot set is near the edge of a cell.
constexpr std::uint32_t kCells = 64;

// The cell of each id. `order`: all ids in the order of the cells; empty means ascending.
std::vector<std::uint8_t> cells_of(const std::vector<double>& probabilities,
                                   std::span<const std::uint32_t> order = {});

// Per draw; `by_token` is indexed by id.
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

// The total variation distance between the shares of the draws and the expected shares.
Distance total_variation(const Tally& tally, const Expected& expected);

struct Noise {
    double mean = 0.0;
    double deviation = 0.0;  // standard deviation
};
Noise noise_of(const std::vector<double>& values);

}  // namespace croupier::bench

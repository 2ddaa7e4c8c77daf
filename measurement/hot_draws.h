// Measures unfiltered draws by the sampler with hot sets of several sizes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "command_line/progress.h"
#include "measurement/bench_rows.h"
#include "proto/sampling.h"

namespace croupier::measurement {

// Rounds sizes up to whole blocks, sorts them and removes duplicates; 0 stays 0. Throws std::runtime_error
// for a size above the vocabulary.
std::vector<std::uint32_t> whole_blocks(std::vector<std::uint32_t> sizes, std::uint32_t vocab);

// Sizes from 256 to the vocabulary, two per octave.
std::vector<std::uint32_t> sizes_to_try(std::uint32_t vocab);

struct HotDraws {
    std::uint32_t hot = 0;
    std::vector<double> rounds_us;           // mean of each round
    std::vector<double> hot_path_rounds_us;  // of draws that accepted their first proposal from the hot set
    std::uint64_t draws = 0;                 // without interrupted draws
    std::uint64_t hot_path = 0;
    std::uint64_t proposals = 0;
    std::uint64_t blocks_read = 0;

    double mean_us() const;
    double hot_path_us() const;
    double per_draw(std::uint64_t count) const {
        return static_cast<double>(count) / static_cast<double>(draws);
    }
};

// Each round draws once from every row with every size, so that other load affects all sizes alike.
std::vector<HotDraws> measure_draws(const BenchRows& rows, const proto::SamplingParams& params,
                                    std::span<const std::uint32_t> sizes, std::uint32_t rounds,
                                    command_line::Progress& progress);

}  // namespace croupier::measurement

// Untruncated draws by the sampler itself, with hot sets of several sizes, measured side by side.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "command_line/progress.h"
#include "measurement/bench_rows.h"
#include "proto/sampling.h"

namespace croupier::measurement {

// Hot sets are whole blocks: 0 stays, what would end inside a block ends with it. Throws for what is above
// the vocabulary.
std::vector<std::uint32_t> whole_blocks(std::vector<std::uint32_t> sizes, std::uint32_t vocab);

// From 256 to the vocabulary, in half octaves.
std::vector<std::uint32_t> sizes_to_try(std::uint32_t vocab);

struct HotDraws {
    std::uint32_t hot = 0;
    std::vector<double> rounds_us;           // each round's mean
    std::vector<double> hot_path_rounds_us;  // of the draws whose first proposal, a hot one, was accepted
    std::uint64_t draws = 0;                 // less those that were interrupted
    std::uint64_t hot_path = 0;
    std::uint64_t proposals = 0;
    std::uint64_t blocks_read = 0;

    double mean_us() const;
    double hot_path_us() const;
    double per_draw(std::uint64_t count) const {
        return static_cast<double>(count) / static_cast<double>(draws);
    }
};

// Every row once a round and size, the sizes in turns, so that whatever disturbs the machine disturbs all.
std::vector<HotDraws> measure_draws(const BenchRows& rows, const proto::SamplingParams& params,
                                    std::span<const std::uint32_t> sizes, std::uint32_t rounds,
                                    command_line::Progress& progress);

}  // namespace croupier::measurement

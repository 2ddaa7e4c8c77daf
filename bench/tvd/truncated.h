// Compares filtered decisions in all variants of the sampler with the reference over the whole row.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "command_line/progress.h"
#include "measurement/bench_rows.h"

namespace croupier::bench {

struct Agreement {
    std::uint64_t decisions = 0;  // distinct decisions: a row, parameters and randoms
    std::uint64_t compared = 0;   // each decision in several variants
    std::uint64_t by_reference = 0;
    std::uint64_t different = 0;
    std::string first_difference;
};

// Makes `draws` decisions per step, cycling through hot sets of these sizes.
Agreement compare_truncated(const measurement::BenchRows& rows, std::uint32_t steps, std::uint32_t draws,
                            const std::vector<std::uint32_t>& sizes, command_line::Progress& progress);

}  // namespace croupier::bench

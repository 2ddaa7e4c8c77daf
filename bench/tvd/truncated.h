// Truncated decisions by every way that the sampler has, against the reference's over the whole row.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "command_line/progress.h"
#include "measurement/bench_rows.h"

namespace croupier::bench {

struct Agreement {
    std::uint64_t decisions = 0;  // different ones: a row's parameters and a random
    std::uint64_t compared = 0;   // each by several ways
    std::uint64_t by_reference = 0;
    std::uint64_t different = 0;
    std::string first_difference;
};

// So many decisions of each step; hot sets of these sizes in turn.
Agreement compare_truncated(const measurement::BenchRows& rows, std::uint32_t steps, std::uint32_t draws,
                            const std::vector<std::uint32_t>& sizes, command_line::Progress& progress);

}  // namespace croupier::bench

// Compares unfiltered draws by the sampler with the exact distributions.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/tvd/tally.h"
#include "command_line/progress.h"
#include "measurement/bench_rows.h"

namespace croupier::bench {

struct ExactnessSize {
    std::uint32_t steps;
    std::uint32_t draws;               // per step and hot set
    std::vector<std::uint32_t> sizes;  // of the hot sets; 0: each row chooses its blocks
};

struct SizedDistance {
    std::uint32_t hot;
    Distance distance;
    double tail;       // share of draws from the tail
    double proposals;  // per draw
};

struct Exactness {
    std::vector<SizedDistance> sizes;
    Distance in_all;
    // Distances of as many draws from the exact distributions.
    Noise token_noise;
    Noise cell_noise;
    Noise token_noise_in_all;
    Noise cell_noise_in_all;
    // Distances between the distribution that the sampler returns and the exact one, without draws.
    double mean_answered = 0.0;
    double most_answered = 0.0;
};

Exactness judge_draws(const measurement::BenchRows& rows, const ExactnessSize& size,
                      command_line::Progress& progress);

}  // namespace croupier::bench

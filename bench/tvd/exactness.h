// Untruncated draws by the sampler, step after step, against what they ought to be.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/tvd/tally.h"
#include "command_line/progress.h"
#include "measurement/bench_rows.h"

namespace croupier::bench {

struct ExactnessSize {
    std::uint32_t steps;
    std::uint32_t draws;               // of a step with each hot set
    std::vector<std::uint32_t> sizes;  // of the hot sets; 0: the row's own choice
};

struct SizedDistance {
    std::uint32_t hot;
    Distance distance;
    double tail;       // share of the draws that took the tail's proposal
    double proposals;  // a draw
};

struct Exactness {
    std::vector<SizedDistance> sizes;
    Distance in_all;
    // Of so many draws from the expected distributions themselves.
    Noise token_noise;
    Noise cell_noise;
    Noise token_noise_in_all;
    Noise cell_noise_in_all;
    // Between the distribution that the sampler says it draws from and the expected one, without a draw.
    double mean_answered = 0.0;
    double most_answered = 0.0;
};

Exactness judge_draws(const measurement::BenchRows& rows, const ExactnessSize& size,
                      command_line::Progress& progress);

}  // namespace croupier::bench

// Compares draws from rows and from slightly changed rows with the same randoms: how often they differ, and
// how often they must.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "command_line/progress.h"
#include "measurement/bench_rows.h"
#include "proto/sampling.h"

namespace croupier::bench {

struct MovesOptions {
    std::uint32_t draws;  // per setting and change, over all rows
    double sigma;
    std::vector<proto::SamplingParams> settings;
};

struct Moved {
    double changed = 0.0;          // share of the draws that changed
    double total_variation = 0.0;  // mean over the rows
    double ratio() const { return changed / total_variation; }
};

struct MovesOfSetting {
    std::uint64_t draws = 0;  // draws of each kind
    Moved noise;              // fp32 rows and the same with noise
    Moved rounding;           // rows with noise and the same rounded to bf16
};

// Results in the order of the settings.
std::vector<MovesOfSetting> measure_moves(const measurement::BenchRows& rows, const MovesOptions& options,
                                          command_line::Progress& progress);

}  // namespace croupier::bench

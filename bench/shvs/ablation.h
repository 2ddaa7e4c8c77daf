// The SIMPLE paper's ablation (figure 10): the effect of each step from an engine's sampler to this one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "command_line/progress.h"
#include "measurement/bench_rows.h"

namespace croupier::bench {

struct AblationSize {
    std::uint32_t rounds;
    std::uint32_t history;
    std::uint32_t hot;  // for the variants with a hot set
};

struct Variant {
    std::string name;
    std::string what;
    std::vector<double> temperature_us;  // by round
    std::vector<double> full_us;
};

// `by_id` is for the ports of the engine's sampler, `hot_first` for the others.
std::vector<Variant> run_ablation(const AblationSize& size, const measurement::BenchRows& by_id,
                                  const measurement::BenchRows& hot_first, command_line::Progress& progress);

// The mean ratio of `one` to `other`, measured in the same rounds, over the middle half of the rounds.
double paired_ratio(const std::vector<double>& one, const std::vector<double>& other);

}  // namespace croupier::bench

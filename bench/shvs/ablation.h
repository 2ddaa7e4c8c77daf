// The SIMPLE paper's ablation (its figure 10): what each step from an engine's sampler to this one brings.
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
    std::uint32_t hot;  // of the variants with a hot set
};

struct Variant {
    std::string name;
    std::string what;
    std::vector<double> temperature_us;  // by round
    std::vector<double> full_us;
};

// Rows by id for the ports, and as a session's writer lays them for the others.
std::vector<Variant> run_ablation(const AblationSize& size, const measurement::BenchRows& by_id,
                                  const measurement::BenchRows& hot_first, command_line::Progress& progress);

// Of times that were measured in the same rounds: how much of `other`'s each of `one`'s is, in the middle
// half of the rounds.
double paired_ratio(const std::vector<double>& one, const std::vector<double>& other);

}  // namespace croupier::bench

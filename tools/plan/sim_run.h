// Short runs of `croupier sim` with its own daemon, real samplers, writers and a scheduler.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tools/plan/measured_step.h"

namespace croupier::tools {

struct SimPlace {
    std::string shm_dir;  // empty: sim's default
    std::uint32_t timeout_s = 120;
};

// Two runs of one setting differ by up to 25 %: a sampler that is late once loses columns to others, which
// keep those sequences until they end (daemon/worker/step_shares.h). Hence the mean of several runs' medians.
// A check has more runs than a measured setting because no model averages over it; the middle three of its
// five count, as one may be disturbed.
constexpr std::uint32_t kMeasuringRuns = 3;
constexpr std::uint32_t kCheckingRuns = 5;

// With `samplers` 0 the daemon chooses the number. Throws std::runtime_error with sim's output.
MeasuredStep run_sim(const Setting& setting, std::uint32_t samplers, const SimPlace& place,
                     std::uint32_t runs);
MeasuredStep run_sim_once(const Setting& setting, std::uint32_t samplers, const SimPlace& place,
                          std::uint32_t seed);

// Combines at least one run of the same setting: means of the times (of the middle half from four runs on),
// and sums of the counts.
MeasuredStep combine_runs(std::span<const MeasuredStep> runs);

// Parses the JSON object in sim's last line. Throws std::runtime_error if it is not one of this build's sim.
MeasuredStep measured_step_of(const std::string& last_line, const Setting& setting);

}  // namespace croupier::tools

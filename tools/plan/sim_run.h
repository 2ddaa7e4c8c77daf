// Short runs of `croupier sim`, which lies beside this program: a daemon of its own, real samplers, writers
// and a scheduler.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tools/plan/measured_step.h"

namespace croupier::tools {

struct SimPlace {
    std::string shm_dir;  // empty: sim's own choice
    std::uint32_t timeout_s = 120;
};

// Two runs of one setting differ by up to a quarter: a sampler that was late once loses columns to others,
// and these keep their sequences, up to a quarter more than an even share, to the end of the requests
// (daemon/worker/step_shares.h). A short run shows steps before such a step or after one; the mean of several
// runs' medians is what to expect. A model is fitted to many settings, a check has but its own; of its five
// the middle three count, as one may be disturbed.
constexpr std::uint32_t kMeasuringRuns = 3;
constexpr std::uint32_t kCheckingRuns = 5;

// `samplers` of 0: as many as the daemon starts by itself. Throws std::runtime_error with what sim said.
MeasuredStep run_sim(const Setting& setting, std::uint32_t samplers, const SimPlace& place,
                     std::uint32_t runs);
MeasuredStep run_sim_once(const Setting& setting, std::uint32_t samplers, const SimPlace& place,
                          std::uint32_t seed);

// Of runs of one setting, one at least: the means of their times, from four runs on of the middle half; the
// sums of their columns.
MeasuredStep taken_together(std::span<const MeasuredStep> runs);

// The object that sim's last line is. Throws std::runtime_error where it is not one that this build's sim
// writes.
MeasuredStep measured_step_of(const std::string& last_line, const Setting& setting);

}  // namespace croupier::tools

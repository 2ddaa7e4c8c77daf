// A short run of `croupier sim`, which lies beside this program: a daemon of its own, real samplers, writers
// and a scheduler.
#pragma once

#include <cstdint>
#include <string>

#include "tools/plan/measured_step.h"

namespace croupier::tools {

struct SimPlace {
    std::string shm_dir;  // empty: sim's own choice
    std::uint32_t timeout_s = 120;
};

// `samplers` of 0: as many as the daemon starts by itself. Throws std::runtime_error with what sim said.
MeasuredStep run_sim(const Setting& setting, std::uint32_t samplers, const SimPlace& place);

// The object that sim's last line is. Throws std::runtime_error where it is not one that this build's sim
// writes.
MeasuredStep measured_step_of(const std::string& last_line, const Setting& setting);

}  // namespace croupier::tools

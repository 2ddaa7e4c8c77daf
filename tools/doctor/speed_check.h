// What is said of cores by what was measured of them.
#pragma once

#include "tools/doctor/core_speed.h"
#include "tools/doctor/finding.h"

namespace croupier::tools::doctor {

// `daemon_lives`: its samplers take their cores, and rightly.
Finding judge_speeds(const CoreSpeeds& speeds, bool daemon_lives);

}  // namespace croupier::tools::doctor

// One rank of the simulated engine's last pipeline stage: writes its slice of every step's logits.
#pragma once

#include <cstdint>

#include "tools/sim/world.h"

namespace croupier::tools::sim {

// Runs in a process of its own until every request is served; may be killed at any instruction.
void run_writer(const World& world, std::uint32_t rank);

}  // namespace croupier::tools::sim

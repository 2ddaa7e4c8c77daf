// One rank of the simulated engine's last pipeline stage: writes its slice of every step's logits.
#pragma once

#include <cstdint>
#include <string>

#include "shm/segment.h"
#include "sim/world.h"

namespace croupier::sim {

// Each runs in a process of its own until every request is served; may be killed at any instruction.
void run_writer(const World& world, std::uint32_t rank);
void run_gpu_writer(const World& world, std::uint32_t rank);

// How often samplers asked for more of a row than was sent.
std::uint64_t wishes_of(const shm::Segment& segment);
bool writer_served(const World& world);
// The segment's path; empty when there was none within a moment: the session may not be there yet.
std::string await_segment(const World& world);

}  // namespace croupier::sim

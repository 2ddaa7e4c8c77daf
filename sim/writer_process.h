// One rank of the simulated engine's last pipeline stage, which writes its slice of every step's logits.
#pragma once

#include <cstdint>
#include <string>

#include "shm/segment.h"
#include "sim/world.h"

namespace croupier::sim {

// Each runs in its own process until every request is served, and may be killed at any instruction.
void run_writer(const World& world, std::uint32_t rank);
void run_gpu_writer(const World& world, std::uint32_t rank);

// How many writers all ranks have had together: it grows as one is replaced.
std::uint32_t writers_so_far(const shm::Segment& segment);

// The number of requests by samplers for more blocks of a row.
std::uint64_t block_requests_of(const shm::Segment& segment);
bool writer_served(const World& world);
// Waits a moment for the segment's path; empty if the session does not exist yet.
std::string await_segment(const World& world);

}  // namespace croupier::sim

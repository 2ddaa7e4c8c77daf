// A step's tokens, read from the segment by a writer's process.
#pragma once

#include <cstdint>

#include "shm/segment.h"

namespace croupier::gpu_writer {

// Whether every column of a step is decided, or its record was refused. Fails where its slot holds a later
// step.
shm::Result<bool> is_decided(const shm::Segment& segment, std::uint64_t step, std::uint32_t columns);

// Of a step that is decided: -1 where a decision is an error.
void read_tokens(const shm::Segment& segment, std::uint64_t step, std::uint32_t columns,
                 std::int32_t* tokens);

}  // namespace croupier::gpu_writer

// Puts a session into the state after more steps than a test can make.
#pragma once

#include <atomic>
#include <cstdint>

#include "shm/segment.h"

namespace croupier::testing {

// After this many steps, the step number in a ready word, a stamp and a block request wraps around.
constexpr std::uint64_t kTagPeriod = std::uint64_t{1} << 28U;

// Sets the next step to `next` and the slots to the state after their last step. No client may be attached
// and no step in flight.
inline void move_counters(const shm::Segment& segment, std::uint64_t next) {
    segment.header().published.store(next, std::memory_order_seq_cst);
    segment.header().taken.store(next, std::memory_order_seq_cst);
}

// Resets the epoch of each rank's writers. No writer may be attached.
inline void forget_writers(const shm::Segment& segment) {
    for (std::uint32_t rank = 0; rank < segment.geometry().tp; ++rank)
        segment.header().writers[rank].epoch.store(0, std::memory_order_seq_cst);
}

}  // namespace croupier::testing

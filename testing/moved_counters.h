// A session as it is after more steps than a test can make.
#pragma once

#include <atomic>
#include <cstdint>

#include "shm/segment.h"

namespace croupier::testing {

// After so many steps a ready word's, a stamp's and a wish's step comes round.
constexpr std::uint64_t kTagPeriod = std::uint64_t{1} << 28U;

// The next step is `next`, and what the slots hold is as its last step left it. No client is attached, and no
// step is in flight.
inline void move_counters(const shm::Segment& segment, std::uint64_t next) {
    segment.header().published.store(next, std::memory_order_seq_cst);
    segment.header().taken.store(next, std::memory_order_seq_cst);
}

// Each rank's next writer has the first one's epoch, as if that had been there all the time. None is
// attached.
inline void forget_writers(const shm::Segment& segment) {
    for (std::uint32_t rank = 0; rank < segment.geometry().tp; ++rank)
        segment.header().writers[rank].epoch.store(0, std::memory_order_seq_cst);
}

}  // namespace croupier::testing

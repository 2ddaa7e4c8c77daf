// Which lane, a thread of a sampler, is to decide which column of a step; all rows of a window are one
// lane's. A sequence whose state is dear stays with the lane that has derived it; the others go where there
// is room, so that the lanes' shares are even. Every sampler divides a step for itself: claims make any
// division safe, so it need not be the same one, but it nearly always is.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "daemon/worker/checked_step.h"
#include "shm/segment.h"

namespace croupier::daemon {

// `owners`, by window: a lane and 1, or 0; what is no lane is 0. An owner keeps its windows up to a quarter
// more than its share: beyond that a step would wait for it longer than another takes to derive the state.
// A window that a lane was given for want of an owner is its own in a second division, too, where that lane
// owns it by then; nor does any other move.
void divide_windows(std::span<const std::uint32_t> owners, std::uint32_t lanes,
                    std::span<std::uint32_t> lane_of);

class StepShares {
  public:
    StepShares(const proto::Geometry& geometry, std::uint32_t threads);

    // Once a step; `first_lane` is that of thread 0.
    void divide(const shm::Segment& segment, const CheckedStep& step, std::uint32_t first_lane,
                std::uint32_t lanes);

    // Of a step that was divided, ascending.
    std::span<const std::uint32_t> own(const CheckedStep& step, std::size_t thread) const;
    // All threads', one after another.
    std::span<const std::uint32_t> all_own(const CheckedStep& step) const { return slots_[step.slot].own; }
    std::size_t thread_of(const CheckedStep& step, std::size_t place) const;  // in all_own()
    std::uint32_t lane_of(const CheckedStep& step, std::uint32_t column) const {
        const Slot& slot = slots_[step.slot];
        return slot.lane_of[window_of(step, column)];
    }
    std::uint32_t window_of(const CheckedStep& step, std::uint32_t column) const {
        return slots_[step.slot].window_of[column];
    }
    // Some lane has derived what another would have to derive anew.
    bool owned(const CheckedStep& step, std::uint32_t column) const {
        const Slot& slot = slots_[step.slot];
        return slot.owners[window_of(step, column)] != 0;
    }

  private:
    struct Slot {
        std::uint64_t step = ~0ULL;
        std::vector<std::uint32_t> window_of;  // by column
        std::vector<std::uint32_t> owners;     // by window
        std::vector<std::uint32_t> lane_of;    // by window
        std::vector<std::uint32_t> own;
        std::vector<std::uint32_t> ends;  // by thread, in `own`
    };

    std::uint32_t threads_;
    std::vector<Slot> slots_;
};

}  // namespace croupier::daemon

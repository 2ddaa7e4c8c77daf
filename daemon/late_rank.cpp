#include "daemon/late_rank.h"

#include "shm/clock.h"
#include "shm/logits_publisher.h"

namespace croupier::daemon {

void LateRankWatch::look(const shm::Segment& segment, const CheckedStep& step) {
    const std::uint32_t ranks = segment.geometry().tp;
    if (ranks == 1) return;
    Slot& slot = slots_[step.slot];
    if (slot.step != step.step) slot = {step.step, {}};
    // Who was the only one stays it.
    if (slot.late.is_known) return;
    std::uint32_t missing = 0;
    std::uint32_t last = 0;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        if (shm::slice_ready(segment, step.step, rank)) continue;
        last = rank;
        if (++missing > 1) return;
    }
    if (missing == 1) slot.late = {true, last, shm::monotonic_ns()};
}

LateRank LateRankWatch::of(const CheckedStep& step) const {
    const Slot& slot = slots_[step.slot];
    return slot.step == step.step ? slot.late : LateRank{};
}

}  // namespace croupier::daemon

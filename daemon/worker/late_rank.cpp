#include "daemon/worker/late_rank.h"

#include "shm/clock.h"
#include "shm/logits_publisher.h"

namespace croupier::daemon {

void LateRankWatch::look(const shm::Segment& segment, const CheckedStep& step) {
    const std::uint32_t ranks = segment.geometry().tp;
    if (ranks == 1) return;
    LateRank& late = late_.of(step);
    // Who was the only one stays it.
    if (late.is_known) return;
    std::uint32_t missing = 0;
    std::uint32_t last = 0;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        if (shm::slice_ready(segment, step.step, rank)) continue;
        last = rank;
        if (++missing > 1) return;
    }
    if (missing == 1) late = {true, last, shm::monotonic_ns()};
}

}  // namespace croupier::daemon

// Which rank's logits came last, as one sampler saw it while it looked for them.
#pragma once

#include <cstdint>

#include "daemon/worker/checked_step.h"
#include "daemon/worker/per_step.h"
#include "shm/segment.h"

namespace croupier::daemon {

struct LateRank {
    bool is_known = false;
    std::uint32_t rank = 0;
    std::uint64_t alone_since_ns = 0;  // all others had been seen complete by then
};

class LateRankWatch {
  public:
    explicit LateRankWatch(std::uint32_t slots) : late_(slots) {}

    // Of a step whose logits are not complete: at each look.
    void look(const shm::Segment& segment, const CheckedStep& step);
    LateRank of(const CheckedStep& step) const { return late_.kept_of(step); }

  private:
    PerStep<LateRank> late_;
};

}  // namespace croupier::daemon

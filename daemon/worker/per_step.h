// What one process keeps of each step in flight: begun anew when a slot is another step's.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/worker/checked_step.h"

namespace croupier::daemon {

template <typename Kept>
class PerStep {
  public:
    explicit PerStep(std::uint32_t slots) : slots_(slots) {}

    Kept& of(const CheckedStep& step) {
        Slot& slot = slots_[step.slot];
        if (slot.step != step.step) slot = {step.step, Kept{}};
        return slot.kept;
    }
    // Of a step that nothing was kept of, what one begins with.
    Kept kept_of(const CheckedStep& step) const {
        const Slot& slot = slots_[step.slot];
        return slot.step == step.step ? slot.kept : Kept{};
    }

  private:
    struct Slot {
        std::uint64_t step = ~0ULL;
        Kept kept{};
    };

    std::vector<Slot> slots_;
};

}  // namespace croupier::daemon

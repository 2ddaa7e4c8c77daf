#include "shm/step_window.h"

#include <atomic>

namespace croupier::shm {

StepWindow steps_in_flight(const Segment& segment) {
    const auto& header = segment.header();
    for (int attempt = 0; attempt < 4; ++attempt) {
        const std::uint64_t first = header.taken.load(std::memory_order_acquire);
        // acquire: pairs with the release in SchedulePublisher::publish; the records are then visible.
        const std::uint64_t end = header.published.load(std::memory_order_acquire);
        // Only while `taken` stood still do the two belong together.
        if (header.taken.load(std::memory_order_acquire) != first) continue;
        return {first, end, end >= first && end - first <= segment.geometry().slots};
    }
    return {};  // the client is moving: the next look will see it
}

bool step_complete(const Segment& segment, std::uint32_t slot, std::uint32_t columns) {
    // acquire on both: pairs with the releases in StepClaims; the decisions behind them are then visible.
    if (segment.decision_head(slot).refused.load(std::memory_order_acquire) != 0) return true;
    const auto* bits = segment.committed(slot);
    for (std::uint32_t word = 0; word * 64 < columns; ++word) {
        const std::uint32_t left = columns - word * 64;
        const std::uint64_t full = left >= 64 ? ~0ULL : (1ULL << left) - 1;
        if ((bits[word].load(std::memory_order_acquire) & full) != full) return false;
    }
    return true;
}

}  // namespace croupier::shm

#include "shm/step_window.h"

#include <algorithm>
#include <atomic>

namespace croupier::shm {

StepWindow steps_in_flight(const Segment& segment) {
    const auto& header = segment.header();
    // acquire: pairs with the release in SchedulePublisher::publish; the records are then visible.
    const std::uint64_t end = header.published.load(std::memory_order_acquire);
    // Read second: `taken` can only have grown since, so that a window is never wider than the ring.
    // acquire: pairs with the release in SchedulePublisher::take; the next load is no older.
    const std::uint64_t first = header.taken.load(std::memory_order_acquire);
    if (first <= end) return {first, end, end - first <= segment.geometry().slots};
    // The client published and took between the two loads, or it contradicts itself.
    return {first, first, first <= header.published.load(std::memory_order_acquire)};
}

proto::DecisionError step_refusal(const Segment& segment, std::uint32_t slot) {
    // seq_cst for the sake of step_complete; pairs with StepClaims::refuse.
    const std::uint64_t word = segment.decision_head(slot).refusal.load(std::memory_order_seq_cst);
    return static_cast<proto::DecisionError>(proto::RefusalWord::unpack(word).error);
}

bool step_complete(const Segment& segment, std::uint32_t slot, std::uint32_t columns) {
    if (step_refusal(segment, slot) != proto::DecisionError::none) return true;
    const auto* bits = segment.committed(slot);
    for (std::uint32_t word = 0; word * 64 < columns; ++word) {
        const std::uint32_t left = columns - word * 64;
        const std::uint64_t full = left >= 64 ? ~0ULL : (1ULL << left) - 1;
        // seq_cst, not merely acquire: of two samplers that set the last bits of two words at once, one has
        // to see both; and a client that goes to sleep has to see a bit whose author saw it awake.
        if ((bits[word].load(std::memory_order_seq_cst) & full) != full) return false;
    }
    return true;
}

proto::StoredArray<const proto::RankedLogprob> asked_logprobs(
    proto::StoredArray<const proto::RankedLogprob> column) {
    if (column.empty() || column[0].load().rank == 0) return {};
    std::size_t count = 1;
    while (count < column.size() && column[count].load().token >= 0) ++count;
    return column.part(0, count);
}

AnsweredSupport answered_support(const Segment& segment, std::uint32_t slot, std::uint32_t column) {
    const auto room = segment.support(slot, column);
    if (room.empty()) return {};
    const proto::SupportHead head = segment.support_head(slot, column);
    return {room.first(std::min<std::size_t>(head.count, room.size())), head.total};
}

}  // namespace croupier::shm

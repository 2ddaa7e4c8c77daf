// Which steps of a session are in flight, read by a process that trusts none of the words it reads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "shm/segment.h"

namespace croupier::shm {

struct StepWindow {
    std::uint64_t first = 0;  // steps first .. end - 1 are published and not yet taken
    std::uint64_t end = 0;
    bool sound = true;  // false: the counters contradict the ring's size
};

StepWindow steps_in_flight(const Segment& segment);

// visit(step, columns) of each of them; of none where the counters contradict the ring's size.
template <typename Visit>
void for_each_step(const Segment& segment, Visit&& visit) {
    const StepWindow window = steps_in_flight(segment);
    if (!window.sound) return;
    for (std::uint64_t step = window.first; step < window.end; ++step) {
        const auto& record = segment.schedule(segment.slot_of(step));
        visit(step, std::min(record.columns, segment.geometry().max_batch));
    }
}

// Why the whole record of the step in `slot` was refused; none when it was not.
proto::DecisionError step_refusal(const Segment& segment, std::uint32_t slot);

// Every column of the step in `slot` is committed, or its whole record was refused.
bool step_complete(const Segment& segment, std::uint32_t slot, std::uint32_t columns);

// Of a column's region, those that its sequence asked for: the drawn token's own, then the best.
proto::StoredArray<const proto::RankedLogprob> asked_logprobs(
    proto::StoredArray<const proto::RankedLogprob> column);

// What of a column's support is there. Copied: its count is another process's.
struct AnsweredSupport {
    std::span<const proto::Survivor> survivors;
    std::uint32_t total = 0;
};
AnsweredSupport answered_support(const Segment& segment, std::uint32_t slot, std::uint32_t column);

}  // namespace croupier::shm

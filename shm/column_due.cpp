#include "shm/column_due.h"

#include <atomic>

namespace croupier::shm {
namespace {

using proto::ScheduleColumn;

// The column before another one of its sequence, as long as its step is in flight.
struct Before {
    enum class State { none, undecided, decided, broken } state = State::none;
    ScheduleColumn column;
    proto::Decision decision;
    std::uint64_t step = 0;
};

Before column_before(const Segment& segment, std::uint64_t step, const ScheduleColumn& asked) {
    Before before;
    if (asked.after_steps == 0) return before;
    before.state = Before::State::broken;
    if (asked.after_steps >= segment.geometry().slots || asked.after_steps > step) return before;
    before.step = step - asked.after_steps;
    const auto& taken = segment.header().taken;
    // SYNC: acquire; pairs with the release in SchedulePublisher::take: the log then has all of that step.
    const bool over = taken.load(std::memory_order_acquire) > before.step;
    const std::uint32_t slot = segment.slot_of(before.step);
    if (!over && asked.after_column < segment.geometry().max_batch) {
        before.column = segment.schedule_columns(slot)[asked.after_column];
        // SYNC: acquire; pairs with the release of StepClaims::commit.
        const std::uint64_t bits =
            segment.committed(slot)[asked.after_column / 64].load(std::memory_order_acquire);
        before.decision = segment.decisions(slot)[asked.after_column];
        const bool same = before.column.sequence_uid == asked.sequence_uid &&
                          before.column.sequence_slot == asked.sequence_slot &&
                          before.column.ticket + 1 == asked.ticket;
        const bool decided = (bits >> (asked.after_column % 64) & 1U) != 0;
        if (same) before.state = decided ? Before::State::decided : Before::State::undecided;
    }
    // SYNC: pairs with the fence in SchedulePublisher::publish: who has read a word of the slot's next step
    // sees that this one was taken, and believes nothing of it.
    std::atomic_thread_fence(std::memory_order_acquire);
    if (taken.load(std::memory_order_acquire) > before.step) before.state = Before::State::none;
    return before;
}

// After a truncate, or once a given-up column was answered before its turn, columns further back may be
// undecided still; whoever decides them writes to the log.
Due all_decided(const Segment& segment, std::uint64_t step, ScheduleColumn asked) {
    while (true) {
        const Before before = column_before(segment, step, asked);
        if (before.state == Before::State::broken) return Due::broken;
        if (before.state == Before::State::undecided) return Due::later;
        if (before.state == Before::State::none) return Due::now;
        step = before.step;
        asked = before.column;
    }
}

}  // namespace

DueColumn due_of(const Segment& segment, std::uint64_t step, const ScheduleColumn& asked) {
    const auto& entry = segment.sequence(asked.sequence_slot);
    const auto current = [&] {
        // SYNC: acquire; pairs with the release in revise().
        return entry.revision.load(std::memory_order_acquire) == asked.revision;
    };
    const auto by_log = [&] {
        // SYNC: acquire; pairs with the releases in SchedulePublisher::take and SequenceTable::truncate.
        const std::uint32_t length = entry.length.load(std::memory_order_acquire);
        // Once more: the length may be that which a truncate left.
        if (!current()) return DueColumn{Due::never, 0};
        return DueColumn{Due::now, length - entry.prompt_length};
    };
    if (!current()) return {Due::never, 0};
    if (asked.after_steps == 0) return by_log();
    const Before before = column_before(segment, step, asked);
    switch (before.state) {
        case Before::State::broken:
            return {Due::broken, 0};
        case Before::State::undecided:
            return {Due::later, 0};
        case Before::State::none:
            return by_log();
        case Before::State::decided:
            break;
    }
    if (before.column.revision != asked.revision) {
        const Due all = all_decided(segment, before.step, before.column);
        return all == Due::now ? by_log() : DueColumn{all, 0};
    }
    const bool ended = before.decision.error != proto::DecisionError::none ||
                       (before.decision.flags & proto::kStoppedMask) != 0;
    if (ended) return {Due::never, 0};
    return {Due::now, before.decision.position + 1};
}

}  // namespace croupier::shm

#include "shm/column_due.h"

#include <algorithm>
#include <atomic>
#include <optional>

namespace croupier::shm {
namespace {

using proto::Decision;
using proto::DecisionError;
using proto::RowInput;
using proto::ScheduleColumn;

bool is_committed(const Segment& segment, std::uint32_t slot, std::uint32_t column) {
    // SYNC: acquire; pairs with the release of StepClaims::commit.
    const std::uint64_t bits = segment.committed(slot)[column / 64].load(std::memory_order_acquire);
    return (bits >> (column % 64) & 1U) != 0;
}

// The window before another one of its sequence, as long as its step is in flight.
struct Before {
    enum class State { none, undecided, decided, broken } state = State::none;
    std::uint64_t step = 0;
    ScheduleColumn head;
    bool ended = false;         // decided: a row of it ended the sequence
    std::uint32_t outputs = 0;  // decided: of the sequence, with the window's
};

// Looks at the rows of the window whose last one is `last`.
void look_at_rows(const Segment& segment, std::uint32_t slot, std::uint32_t last, Before& before) {
    const std::uint32_t rows = segment.schedule_columns(slot)[last].load().row + 1U;
    if (rows > proto::kMaxWindowRows || rows > last + 1) return;
    before.state = Before::State::decided;
    for (std::uint32_t column = last + 1 - rows; column <= last; ++column) {
        if (!is_committed(segment, slot, column)) before.state = Before::State::undecided;
        if (before.state == Before::State::undecided) return;
        const Decision decision = segment.decisions(slot)[column];
        before.ended = before.ended || proto::ends_sequence(decision);
        if (decision.error == DecisionError::none)
            before.outputs = std::max(before.outputs, decision.position + 1);
    }
}

Before window_before(const Segment& segment, std::uint64_t step, const ScheduleColumn& asked) {
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
        const ScheduleColumn last = segment.schedule_columns(slot)[asked.after_column];
        const bool same = last.sequence_uid == asked.sequence_uid &&
                          last.sequence_slot == asked.sequence_slot && last.ticket + 1 == asked.ticket;
        if (same) look_at_rows(segment, slot, asked.after_column, before);
        if (same && last.row <= asked.after_column)
            before.head = segment.schedule_columns(slot)[asked.after_column - last.row];
    }
    // SYNC: pairs with the fence in SchedulePublisher::publish: who has read a word of the slot's next step
    // sees that this one was taken, and believes nothing of it.
    std::atomic_thread_fence(std::memory_order_acquire);
    if (taken.load(std::memory_order_acquire) > before.step) before.state = Before::State::none;
    return before;
}

// After a truncate, or once a given-up column was answered before it was due, windows further back may be
// undecided still; whoever decides them writes to the log.
Due all_decided(const Segment& segment, std::uint64_t step, ScheduleColumn asked) {
    while (true) {
        const Before before = window_before(segment, step, asked);
        if (before.state == Before::State::broken) return Due::broken;
        if (before.state == Before::State::undecided) return Due::later;
        if (before.state == Before::State::none) return Due::now;
        step = before.step;
        asked = before.head;
    }
}

class Sequence {
  public:
    Sequence(const Segment& segment, const ScheduleColumn& asked)
        : entry_(segment.sequence(asked.sequence_slot)), revision_(asked.revision) {}

    bool is_current() const {
        // SYNC: acquire; pairs with the release in revise().
        return entry_.revision(std::memory_order_acquire).number == revision_;
    }
    DueColumn by_log() const {
        // SYNC: acquire; pairs with the releases in SchedulePublisher::take and SequenceTable::truncate.
        const std::uint32_t length = entry_.length.load(std::memory_order_acquire);
        // Once more: the length may be that which a truncate left.
        if (!is_current()) return {Due::never, 0};
        return {Due::now, length - entry_.prompt_length};
    }

  private:
    const proto::SequenceEntry& entry_;
    std::uint32_t revision_;
};

DueColumn due_head(const Segment& segment, std::uint64_t step, const ScheduleColumn& asked,
                   const Sequence& sequence) {
    if (asked.after_steps == 0) return sequence.by_log();
    const Before before = window_before(segment, step, asked);
    switch (before.state) {
        case Before::State::broken:
            return {Due::broken, 0};
        case Before::State::undecided:
            return {Due::later, 0};
        case Before::State::none:
            return sequence.by_log();
        case Before::State::decided:
            break;
    }
    if (before.head.revision != asked.revision) {
        const Due all = all_decided(segment, before.step, before.head);
        return all == Due::now ? sequence.by_log() : DueColumn{all, 0};
    }
    if (before.ended) return {Due::never, 0};
    return {Due::now, before.outputs};
}

// What all ranks' rows were computed from. None where they differ: a rank was replaced, and drafted anew.
RowInput input_of(const Segment& segment, std::uint32_t slot, std::uint32_t column) {
    const std::uint64_t word = segment.inputs(slot, 0)[column].load(std::memory_order_relaxed);
    for (std::uint32_t rank = 1; rank < segment.geometry().tp; ++rank) {
        if (segment.inputs(slot, rank)[column].load(std::memory_order_relaxed) != word) return {};
    }
    return RowInput::unpack(word);
}

// Rows are answered in their order, whatever tree they are: what a writer that was replaced has drafted anew
// finds no row that is decided, and none that a sampler is about to decide, behind one that is not.
bool all_committed(const Segment& segment, std::uint32_t slot, std::uint32_t head, std::uint32_t column) {
    for (std::uint32_t other = head; other < column; ++other) {
        if (!is_committed(segment, slot, other)) return false;
    }
    return true;
}

// After an error nothing of the window is decided, nor a sibling of the row that has it.
bool has_failed(const Segment& segment, std::uint32_t slot, std::uint32_t head, std::uint32_t column) {
    for (std::uint32_t other = head; other < column; ++other) {
        if (proto::is_failure(segment.decisions(slot)[other].load().error)) return true;
    }
    return false;
}

// By an earlier row of the window: a sibling of the same token, or one that was right before a writer was
// replaced.
bool has_decided(const Segment& segment, std::uint32_t slot, std::uint32_t head, std::uint32_t column,
                 std::uint32_t position) {
    for (std::uint32_t other = head + 1; other < column; ++other) {
        const Decision decision = segment.decisions(slot)[other];
        if (decision.error == DecisionError::none && decision.position == position) return true;
    }
    return false;
}

// Where the row stands if it is right, and all rows between the head and it: one that was decided may have
// been drafted anew since, and what follows is computed behind that. Where a text repeats itself, tokens
// alone do not tell that it came nearer to the head.
std::optional<std::uint32_t> right_position(const Segment& segment, std::uint32_t slot, std::uint32_t head,
                                            std::uint32_t column) {
    std::optional<std::uint32_t> position;
    std::uint32_t expected = 0;
    while (column != head) {
        const RowInput input = input_of(segment, slot, column);
        if (input.token < 0 || input.parent < head || input.parent >= column) return std::nullopt;
        const Decision parent = segment.decisions(slot)[input.parent];
        // Behind a stop nothing was decided.
        const bool goes_on = parent.error == DecisionError::none && !proto::ends_sequence(parent);
        if (!goes_on || parent.token != input.token) return std::nullopt;
        if (position && parent.position + 1 != expected) return std::nullopt;
        if (!position) position = parent.position + 1;
        expected = parent.position;
        column = input.parent;
    }
    return position;
}

DueColumn due_row(const Segment& segment, std::uint64_t step, std::uint32_t column,
                  const ScheduleColumn& asked) {
    if (asked.row > column || asked.row >= proto::kMaxWindowRows) return {Due::broken, 0};
    const std::uint32_t slot = segment.slot_of(step);
    const std::uint32_t head = column - asked.row;
    const ScheduleColumn first = segment.schedule_columns(slot)[head];
    const bool same = first.sequence_uid == asked.sequence_uid &&
                      first.sequence_slot == asked.sequence_slot && first.row == 0 &&
                      first.ticket + asked.row == asked.ticket && first.revision == asked.revision;
    if (!same) return {Due::broken, 0};
    if (!all_committed(segment, slot, head, column)) return {Due::later, 0};
    if (has_failed(segment, slot, head, column)) return {Due::never, 0};
    // The head was decided from its row, before which the inputs were stored. It may have been fed anew
    // since, and what follows is computed behind that.
    const std::uint32_t outputs = segment.decisions(slot)[head].load().position;
    const auto position = right_position(segment, slot, head, column);
    const bool right = position && was_fed(segment, step, head, asked, outputs) &&
                       !has_decided(segment, slot, head, column, *position);
    return right ? DueColumn{Due::now, *position} : DueColumn{Due::rejected, 0};
}

}  // namespace

DueColumn due_of(const Segment& segment, std::uint64_t step, std::uint32_t column,
                 const ScheduleColumn& asked) {
    const Sequence sequence(segment, asked);
    if (!sequence.is_current()) return {Due::never, 0};
    return asked.row == 0 ? due_head(segment, step, asked, sequence) : due_row(segment, step, column, asked);
}

bool was_fed(const Segment& segment, std::uint64_t step, std::uint32_t head, const ScheduleColumn& asked,
             std::uint32_t outputs) {
    const RowInput input = input_of(segment, segment.slot_of(step), head);
    if (input.token == RowInput::kNone) return false;
    // What a prompt ends with is the engine's own.
    if (input.token == RowInput::kAny || outputs == 0) return true;
    const std::uint64_t length = std::uint64_t{segment.sequence(asked.sequence_slot).prompt_length} + outputs;
    if (length > segment.geometry().max_length) return false;
    return segment.token_log(asked.sequence_slot)[length - 1] == input.token;
}

}  // namespace croupier::shm

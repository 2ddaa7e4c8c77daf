// What the scheduler asks of one step: which sequence stands in which column, and in windows what each row
// was computed from.
#pragma once

#include <cstdint>

namespace croupier::proto {

struct ScheduleColumn {
    std::uint64_t sequence_uid = 0;
    std::uint32_t sequence_slot = 0;
    // Outputs before the one that is decided, as a guess. Of a head it is the least: each step in flight
    // before it brings one token, or more. Another row follows its head by as many as in a chain; the true
    // number is one more than its parent's.
    std::uint32_t position = 0;
    std::uint16_t mask_row = 0;  // 0: no grammar mask; else row mask_row - 1 of the step's masks
    std::uint16_t row = 0;       // of its window; 0: its head, or a window of one row
    std::uint32_t ticket = 0;    // which column of its sequence it is: one more than that before it
    std::uint32_t revision = 0;  // the sequence's when the step was published
    // Of a head: the last row of the sequence's window before, so many steps ago. That window must be
    // committed first. 0 steps: it is in no step in flight.
    std::uint16_t after_steps = 0;
    std::uint16_t after_column = 0;
};
static_assert(sizeof(ScheduleColumn) == 32);

// Rows of one sequence in one step, and of all its steps in flight together.
constexpr std::uint32_t kMaxWindowRows = 64;

// What the engine computed a row of a window from. Each rank's writer says it before it announces any part of
// the step, in steps with windows only: a rank that was replaced may have drafted anew.
struct RowInput {
    static constexpr std::int32_t kNone = -1;  // no row was computed: fewer rows than were announced
    static constexpr std::int32_t kAny = -2;   // of a head: the engine does not say

    std::int32_t token = kNone;  // that was fed
    std::uint32_t parent = 0;    // the column of its window that decides that token; of a head: itself

    static constexpr RowInput unpack(std::uint64_t word) {
        return {static_cast<std::int32_t>(word >> 32U), static_cast<std::uint32_t>(word)};
    }
    constexpr std::uint64_t pack() const {
        return static_cast<std::uint64_t>(static_cast<std::uint32_t>(token)) << 32U | parent;
    }
};

// Numbers a step's windows, whose columns are told one after another.
class WindowNumbers {
  public:
    // Of the next column, of this number in its window. A step begins with a head, whatever it says.
    constexpr std::uint32_t next(std::uint32_t row) {
        if (row == 0 || windows_ == 0) ++windows_;
        return windows_ - 1;
    }

  private:
    std::uint32_t windows_ = 0;
};

constexpr std::uint32_t kRandomsSupplied = 1U << 0U;
constexpr std::uint32_t kFollows = 1U << 1U;  // some column stands after another in flight
constexpr std::uint32_t kWindows = 1U << 2U;  // some window has several rows
constexpr std::uint32_t kRecordFlags = kRandomsSupplied | kFollows | kWindows;

struct ScheduleRecord {
    std::uint64_t step = 0;
    std::uint32_t columns = 0;
    std::uint32_t epoch = 0;  // of the client that wrote it
    std::uint32_t flags = 0;
    std::uint32_t revisions = 0;  // the header's when it was published: what is void has come since
    std::uint64_t published_ns = 0;
    std::uint64_t taken_ns = 0;  // when the client took the step's decisions; 0: it has not
    // The same of the step that had the slot before: the samplers keep it with this one
    // (proto/column_journal.h).
    std::uint64_t before_taken_ns = 0;
    std::uint64_t reserved2[2] = {};
};
static_assert(sizeof(ScheduleRecord) == 64);

}  // namespace croupier::proto

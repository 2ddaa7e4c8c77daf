// What the scheduler asks of one step: which sequence stands in which column.
#pragma once

#include <cstdint>

namespace croupier::proto {

struct ScheduleColumn {
    std::uint64_t sequence_uid = 0;
    std::uint32_t sequence_slot = 0;
    // Outputs before the one that is decided. With the sequence in earlier steps in flight: if each of them
    // brings its token; else this column is void.
    std::uint32_t position = 0;
    std::uint32_t mask_row = 0;  // 0: no grammar mask; else row mask_row - 1 of the step's masks
    std::uint32_t ticket = 0;    // which column of its sequence it is: one more than that before it
    std::uint32_t revision = 0;  // the sequence's when the step was published
    // Where the sequence stood before, so many steps ago: that column must be committed first. 0 steps: in no
    // step in flight.
    std::uint16_t after_steps = 0;
    std::uint16_t after_column = 0;
};
static_assert(sizeof(ScheduleColumn) == 32);

constexpr std::uint32_t kRandomsSupplied = 1U << 0U;
constexpr std::uint32_t kFollows = 1U << 1U;  // some column stands after another in flight
constexpr std::uint32_t kRecordFlags = kRandomsSupplied | kFollows;

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

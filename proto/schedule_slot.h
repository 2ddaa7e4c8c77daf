// What the scheduler asks of one step: which sequence stands in which column.
#pragma once

#include <cstdint>

namespace croupier::proto {

struct ScheduleColumn {
    std::uint64_t sequence_uid = 0;
    std::uint32_t sequence_slot = 0;
    std::uint32_t position = 0;       // outputs before the one that is decided
    std::uint32_t mask_row = 0;       // 0: no grammar mask; else row mask_row - 1 of the step's masks
    std::uint32_t window_offset = 0;  // reserved for verified decoding: must be 0
    std::int32_t candidate = -1;      // reserved for verified decoding: must be -1
    float temperature = 1.0F;         // the request's; nobody reads it
};
static_assert(sizeof(ScheduleColumn) == 32);

constexpr std::uint32_t kRandomsSupplied = 1U << 0U;

struct ScheduleRecord {
    std::uint64_t step = 0;
    std::uint32_t columns = 0;
    std::uint32_t epoch = 0;  // of the client that wrote it
    std::uint32_t flags = 0;
    std::uint32_t reserved = 0;
    std::uint64_t published_ns = 0;
    std::uint64_t reserved2[4] = {};
};
static_assert(sizeof(ScheduleRecord) == 64);

}  // namespace croupier::proto

// What a sampler keeps of its last columns and steps: a ring for each of its threads, behind the plane's
// header, which that thread alone writes and anybody who may read the plane reads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace croupier::proto {

// Bits of ColumnRecord::marks.
// Not decided: its row was sent in part, and it asked for more.
constexpr std::uint8_t kColumnLeft = 1U << 0U;
// Its row was read while the last tiles were in flight.
constexpr std::uint8_t kColumnReadEarly = 1U << 1U;
// Of an untruncated draw: from the hot set or the row's best blocks, from the others, by more than one
// proposal.
constexpr std::uint8_t kColumnHot = 1U << 2U;
constexpr std::uint8_t kColumnTail = 1U << 3U;
constexpr std::uint8_t kColumnCorrected = 1U << 4U;

// Times are readings of CLOCK_MONOTONIC in nanoseconds. Those of a client (publication, taking) and of the
// segment (logits complete) are another process's words: who reads them does not rely on their order.
struct ColumnRecord {
    std::uint64_t session_id = 0;
    std::uint64_t step = 0;
    std::uint64_t sequence_uid = 0;
    std::uint64_t ready_ns = 0;  // its step's logits complete; 0: they were not (void, or early)
    std::uint64_t begin_ns = 0;
    std::uint32_t duration_ns = 0;  // of the decision; the largest number stands for all that is longer
    std::uint32_t blocks_read = 0;
    std::uint16_t blocks = 0;  // of its row
    std::uint16_t column = 0;
    std::uint8_t path = 0;       // a request::DecisionPath
    std::uint8_t left_open = 0;  // a request::DecisionPath: what was tried before and could not tell
    std::uint8_t error = 0;      // a DecisionError
    std::uint8_t marks = 0;
};

// Of a step that a sampler's commit completed. One that was given up has none.
struct StepRecord {
    std::uint64_t session_id = 0;
    std::uint64_t step = 0;
    std::uint64_t published_ns = 0;
    std::uint64_t ready_ns = 0;  // logits complete; 0: they were not
    std::uint64_t commit_ns = 0;
    // When the client took the step that had the slot before, `slots` steps ago; 0: there was none.
    std::uint64_t before_taken_ns = 0;
    // For so long all other ranks' logits had been there when the last rank's came, as far as it was seen.
    std::uint32_t last_rank_late_ns = 0;
    std::uint16_t columns = 0;
    std::uint8_t slots = 0;
    std::uint8_t last_rank = 0;  // plus one; 0: there is one rank only, or nobody saw which was the last
};

constexpr std::size_t kJournalWords = 7;
static_assert(sizeof(ColumnRecord) == kJournalWords * 8 && sizeof(StepRecord) == kJournalWords * 8);

enum class JournalKind : std::uint64_t { unfinished = 0, column = 1, step = 2 };

// Whether an entry is whole, and the how manieth of its ring: [number + 1][JournalKind, 2 bits].
struct JournalStamp {
    static constexpr std::uint64_t pack(std::uint64_t number, JournalKind kind) {
        return (number + 1) << 2U | static_cast<std::uint64_t>(kind);
    }
    static constexpr std::uint64_t number(std::uint64_t stamp) { return (stamp >> 2U) - 1; }
    static constexpr JournalKind kind(std::uint64_t stamp) { return static_cast<JournalKind>(stamp & 3U); }
};

// One cache line: what a column costs its sampler's cache.
struct alignas(64) JournalEntry {
    std::atomic<std::uint64_t> stamp;
    std::atomic<std::uint64_t> words[kJournalWords];
};
static_assert(sizeof(JournalEntry) == 64);

constexpr std::uint64_t kJournalEntries = 4096;

struct JournalRing {
    alignas(64) std::atomic<std::uint64_t> written;  // entries 0 .. written - 1 are whole, or written over
    JournalEntry entries[kJournalEntries];
};

}  // namespace croupier::proto

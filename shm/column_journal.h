// What samplers keep of their last columns and steps (proto/column_journal.h): written by them, read by
// whoever looks, who disturbs none of them.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/column_journal.h"
#include "shm/plane.h"

namespace croupier::shm {

// Of one thread of a sampler, which alone has it.
class JournalWriter {
  public:
    // Keeps nothing: a stand-in's, which has no plane.
    JournalWriter() = default;
    // Goes on behind what a predecessor has left, whole or not.
    explicit JournalWriter(proto::JournalRing& ring) : ring_(&ring) {}

    void write(const proto::ColumnRecord& record);
    void write(const proto::StepRecord& record);

  private:
    template <typename Record>
    void lay(const Record& record, proto::JournalKind kind);

    proto::JournalRing* ring_ = nullptr;
};

struct JournalColumn {
    std::uint32_t sampler = 0;
    std::uint32_t thread = 0;  // of the sampler
    proto::ColumnRecord record;
};

struct JournalPart {
    std::vector<JournalColumn> columns;  // of each thread in its order
    std::vector<proto::StepRecord> steps;
    std::uint64_t lost = 0;  // entries that were written over before they were read
};

// Reads each entry once. Who reads seldom loses what samplers have written over: each thread keeps the last
// kJournalEntries.
class JournalReader {
  public:
    enum class From { oldest, now };

    JournalReader(const Plane& plane, From from);
    // What has come since the last reading. The plane is the one that the reader was made with.
    JournalPart read(const Plane& plane);

  private:
    std::vector<std::uint64_t> next_;  // [ring]
};

}  // namespace croupier::shm

// The session's live sequences, in the sequence table of its segment.
#pragma once

#include <cstdint>
#include <span>

#include "client/live_uids.h"
#include "client/session_texts.h"
#include "shm/segment.h"
#include "shm/sequence_table.h"

namespace croupier::client {

class LiveSequences {
  public:
    using Entry = LiveUids<std::uint32_t>::Entry;  // its place is a slot of the sequence table

    // Finds the sequences that an earlier client of the session left.
    explicit LiveSequences(shm::Segment& segment);

    shm::Result<bool> add(const shm::NewSequence& sequence);
    shm::Result<bool> fork(const shm::Fork& fork);
    // Its columns in flight become void, also by truncate(). True: it has some.
    shm::Result<bool> finish(std::uint64_t uid);
    // Keeps the first `outputs` of its outputs.
    shm::Result<bool> truncate(std::uint64_t uid, std::uint32_t outputs);
    // Whether append() of so many tokens would be done.
    shm::Result<bool> check_append(std::uint64_t uid, std::size_t count) const;
    // Lengthens its output as decisions would.
    shm::Result<bool> append(std::uint64_t uid, std::span<const std::int32_t> tokens);

    std::size_t size() const { return uids_.size(); }
    std::size_t held() const { return uids_.held(); }
    std::size_t list(std::span<std::uint64_t> uids) const { return uids_.list(uids); }
    shm::Result<std::span<const std::int32_t>> output(std::uint64_t uid) const;
    // Its output, and in a session with a tokenizer what its text depends on.
    shm::Result<FoundText> found_text(std::uint64_t uid) const;

    void begin_submit() { uids_.begin_submit(); }
    // Before ask() of many: what it reads is far apart, and comes together.
    void prefetch(std::uint64_t uid) const;
    // The head of the sequence's window of so many rows in the step that is published next. Fails if the
    // sequence has one there already, or too many rows in flight.
    struct Asked {
        proto::ScheduleColumn column;
        Entry* entry = nullptr;
    };
    shm::Result<Asked> ask(std::uint64_t uid, std::uint64_t step, std::uint32_t rows);
    // The step was published with this column.
    void enter(Entry& entry, std::uint64_t step, std::uint32_t index, const proto::ScheduleColumn& column);
    std::optional<std::uint32_t> slot_of(std::uint64_t uid) const;
    // The same for a step that an earlier client published. Null: the column names no sequence.
    Entry* recall(const proto::ScheduleColumn& column, std::uint64_t step, std::uint32_t index);
    void recalled_all();
    // The step was taken, in which the sequence had so many rows.
    void leave(Entry& entry, std::uint64_t step, std::uint32_t rows);

  private:
    void insert(std::uint64_t uid, std::uint32_t slot);

    shm::Segment* segment_;
    shm::SequenceTable table_;
    LiveUids<std::uint32_t> uids_;
    std::vector<Entry*> by_slot_;           // null: no sequence
    std::vector<std::uint32_t> revisions_;  // the last one of each slot that this client saw
};

}  // namespace croupier::client

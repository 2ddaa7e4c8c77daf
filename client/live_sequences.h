// The session's live sequences in its segment.
#pragma once

#include <cstdint>
#include <span>

#include "client/live_uids.h"
#include "shm/segment.h"
#include "shm/sequence_table.h"

namespace croupier::client {

class LiveSequences {
  public:
    // Finds what an earlier client of the session has left.
    explicit LiveSequences(shm::Segment& segment);

    shm::Result<bool> add(const shm::NewSequence& sequence);
    shm::Result<bool> remove(std::uint64_t uid);

    std::size_t size() const { return slots_.size(); }
    std::size_t list(std::span<std::uint64_t> uids) const { return slots_.list(uids); }
    shm::Result<std::span<const std::int32_t>> output(std::uint64_t uid) const;

    // Puts the sequence into the step; refused while it is in one already.
    shm::Result<proto::ScheduleColumn> enter(std::uint64_t uid, std::uint64_t step);
    void leave(std::uint64_t uid, std::uint64_t step) { slots_.leave(uid, step); }

  private:
    shm::Segment* segment_;
    shm::SequenceTable table_;
    LiveUids<std::uint32_t> slots_;
};

}  // namespace croupier::client

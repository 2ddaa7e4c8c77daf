// The session's live sequences by uid: where each stands in the segment, and which step it is in.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>

#include "client/admission.h"
#include "shm/segment.h"
#include "shm/sequence_table.h"

namespace croupier::client {

class LiveSequences {
  public:
    // Finds what an earlier client of the session has left.
    explicit LiveSequences(shm::Segment& segment);

    shm::Result<bool> add(const shm::NewSequence& sequence);
    shm::Result<bool> remove(std::uint64_t uid);

    std::size_t size() const { return by_uid_.size(); }
    std::size_t list(std::span<std::uint64_t> uids) const;
    shm::Result<std::span<const std::int32_t>> output(std::uint64_t uid) const;

    // Puts the sequence into the step; refused while it is in one already.
    shm::Result<proto::ScheduleColumn> enter(std::uint64_t uid, std::uint64_t step);
    void leave(std::uint64_t uid, std::uint64_t step);

  private:
    struct Place {
        std::uint32_t slot = 0;
        std::optional<std::uint64_t> step;
    };
    shm::Result<const Place*> find(std::uint64_t uid) const;

    shm::Segment* segment_;
    shm::SequenceTable table_;
    std::unordered_map<std::uint64_t, Place> by_uid_;
};

}  // namespace croupier::client

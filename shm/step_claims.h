// The samplers' side of a step: each column is claimed by one, decided, and committed once.
#pragma once

#include <cstdint>

#include "shm/clock.h"
#include "shm/segment.h"

namespace croupier::shm {

class StepClaims {
  public:
    StepClaims(const Segment& segment, std::uint64_t step)
        : segment_(&segment), step_(step), slot_(segment.slot_of(step)) {}

    std::uint32_t slot() const { return slot_; }
    // False when another sampler has the column, or the slot belongs to another step by now.
    bool try_claim(std::uint32_t column, std::uint32_t owner) const;
    bool is_committed(std::uint32_t column) const;
    // Only by the claim's owner. True for the commit that completed the step.
    bool commit(std::uint32_t column, std::uint32_t columns, const proto::Decision& decision,
                std::uint64_t now = monotonic_ns()) const;
    // The record itself is malformed: the client learns it instead of waiting for ever.
    void refuse(proto::DecisionError why) const;

    // Frees what a process that is known to be dead had claimed. `crashed` counts against the column:
    // after kCrashLimit samplers died of it, it is answered with an error instead of tried again.
    std::uint32_t reopen(std::uint32_t dead_owner, std::uint32_t columns, bool crashed) const;
    // The same for every owner: after a daemon's death, when none of its samplers lives.
    std::uint32_t reopen_all(std::uint32_t columns) const;

    static constexpr std::uint32_t kCrashLimit = 3;
    // Owns a column while its crash is accounted for; no sampler bears this number. Should the cleaner die
    // meanwhile, reopen_all frees it with the rest.
    static constexpr std::uint32_t kCleaner = 0xFFFFFFFFU;

  private:
    std::uint32_t reopen_if(std::uint32_t columns, std::uint32_t owner, bool any_owner, bool crashed) const;
    void free_or_give_up(std::uint32_t column, std::uint32_t columns) const;
    void announce() const;

    const Segment* segment_;
    std::uint64_t step_;
    std::uint32_t slot_;
};

}  // namespace croupier::shm

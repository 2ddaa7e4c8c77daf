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
    // False when another sampler has the column, it is suspected, or the slot belongs to another step by now.
    bool try_claim(std::uint32_t column, std::uint32_t owner) const;
    // Of a suspected column. Who claims it must decide nothing beside it.
    bool try_claim_suspect(std::uint32_t column, std::uint32_t owner) const;
    // By the claim's owner, who does not decide it now.
    void give_back(std::uint32_t column, std::uint32_t owner, std::uint32_t to = 0) const {
        (void)exchange_claim(column, owner, to);
    }
    bool is_suspect(std::uint32_t column) const;
    bool has_suspect(std::uint32_t columns) const;
    bool is_committed(std::uint32_t column) const;
    // Only by the claim's owner. True for the commit that completed the step.
    bool commit(std::uint32_t column, std::uint32_t columns, const proto::Decision& decision,
                std::uint64_t now = monotonic_ns()) const;
    // The record itself is malformed: the client learns it instead of waiting for ever.
    void refuse(proto::DecisionError why) const;

    // How many columns the owner has claimed and not committed.
    std::uint32_t claimed_by(std::uint32_t owner, std::uint32_t columns) const;
    // What a process that is known to be dead had claimed is suspected from now on. `alone`: it was one
    // column, and so what the process died of; after kCrashLimit such deaths it is answered with an error
    // instead of tried again.
    std::uint32_t reopen(std::uint32_t dead_owner, std::uint32_t columns, bool alone) const;
    // What any owner had claimed is free again: after a daemon's death, when none of its samplers lives.
    std::uint32_t reopen_all(std::uint32_t columns) const;
    // A process died of the column before it claimed it.
    void suspect(std::uint32_t column, std::uint32_t columns) const;

    // Of a column that its sequence cannot come to any more; suspected or not: its answer reads nothing.
    bool try_claim_void(std::uint32_t column, std::uint32_t owner) const;
    // Instead of a decision. Only by the claim's owner; true for the commit that completed the step.
    bool answer(std::uint32_t column, std::uint32_t columns, proto::DecisionError error) const;
    // Answers each column that nobody has claimed with the error given_up: the step is then over as soon as
    // those who have claimed the others commit. Again by the same giver: what it left half done. How many
    // columns.
    std::uint32_t give_up(std::uint32_t columns, std::uint32_t giver) const;

    static constexpr std::uint32_t kCrashLimit = 3;
    // Owns a column while its crash is accounted for, or while the supervisor gives it up; no sampler bears
    // this number. Should the supervisor die meanwhile, reopen_all frees it with the rest.
    static constexpr std::uint32_t kCleaner = 0xFFFFFFFFU;
    // Owns a column while the client gives it up. The next client completes what this one left.
    static constexpr std::uint32_t kClient = 0xFFFFFFFEU;
    // "Owns" a column that is free, but for those only who decide it alone.
    static constexpr std::uint32_t kSuspect = 0xFFFFFFFDU;

  private:
    bool exchange_claim(std::uint32_t column, std::uint32_t from, std::uint32_t to) const;
    bool nears_end(std::uint32_t columns) const;
    void note_commit(std::uint64_t now) const;
    void count_reopened(std::uint32_t freed) const;
    void suspect_or_answer(std::uint32_t column, std::uint32_t columns, bool alone) const;
    void announce() const;

    const Segment* segment_;
    std::uint64_t step_;
    std::uint32_t slot_;
};

}  // namespace croupier::shm

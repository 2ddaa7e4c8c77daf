#include "shm/step_claims.h"

#include <atomic>

#include "shm/clock.h"
#include "shm/futex.h"
#include "shm/step_window.h"

namespace croupier::shm {

using proto::ClaimWord;
using proto::RefusalWord;
using proto::SessionCounter;

bool StepClaims::try_claim(std::uint32_t column, std::uint32_t owner) const {
    auto& word = segment_->claims(slot_)[column];
    const auto tag = static_cast<std::uint32_t>(step_);
    std::uint64_t expected = ClaimWord{tag, 0}.pack();
    if (word.load(std::memory_order_relaxed) != expected) return false;
    // acquire: pairs with the release in reopen_if, so that a dead owner's half-done stores come before ours.
    return word.compare_exchange_strong(expected, ClaimWord{tag, owner}.pack(), std::memory_order_acq_rel,
                                        std::memory_order_relaxed);
}

bool StepClaims::is_committed(std::uint32_t column) const {
    const std::uint64_t bits = segment_->committed(slot_)[column / 64].load(std::memory_order_acquire);
    return (bits >> (column % 64) & 1U) != 0;
}

bool StepClaims::commit(std::uint32_t column, std::uint32_t columns, const proto::Decision& decision,
                        std::uint64_t now) const {
    segment_->decisions(slot_)[column] = decision;
    auto& head = segment_->decision_head(slot_);
    std::uint64_t last = head.last_commit_ns.load(std::memory_order_relaxed);
    while (last < now && !head.last_commit_ns.compare_exchange_weak(last, now, std::memory_order_relaxed)) {
    }
    // SYNC: release; pairs with the acquire in step_complete: the decision, the log and its length are
    // visible with the bit. fetch_or is idempotent, so a column cannot count twice towards the step.
    segment_->committed(slot_)[column / 64].fetch_or(1ULL << (column % 64), std::memory_order_seq_cst);
    const bool complete = step_complete(*segment_, slot_, columns);
    if (complete) announce();
    // Counted last: the line is shared by all samplers, and who waits should not wait for it. A sampler that
    // dies before this line leaves a statistic one too low, and no decision.
    const auto which = decision.error == proto::DecisionError::none ? SessionCounter::columns_decided
                                                                    : SessionCounter::columns_failed;
    segment_->header().counter(which).fetch_add(1, std::memory_order_relaxed);
    return complete;
}

void StepClaims::refuse(proto::DecisionError why) const {
    const auto tag = static_cast<std::uint32_t>(step_);
    std::uint64_t expected = RefusalWord{tag, 0}.pack();
    const std::uint64_t refusal = RefusalWord{tag, static_cast<std::uint32_t>(why)}.pack();
    // SYNC: seq_cst; pairs with step_refusal. Fails when another sampler was first or the slot moved on.
    auto& word = segment_->decision_head(slot_).refusal;
    if (!word.compare_exchange_strong(expected, refusal, std::memory_order_seq_cst)) return;
    segment_->header().counter(SessionCounter::records_refused).fetch_add(1, std::memory_order_relaxed);
    announce();
}

void StepClaims::announce() const {
    auto& header = segment_->header();
    header.decided_bell.fetch_add(1, std::memory_order_seq_cst);
    if (header.client_sleeps.load(std::memory_order_seq_cst) != 0) futex_wake_all(header.decided_bell);
}

std::uint32_t StepClaims::reopen(std::uint32_t dead_owner, std::uint32_t columns, bool crashed) const {
    return reopen_if(columns, dead_owner, false, crashed);
}

std::uint32_t StepClaims::reopen_all(std::uint32_t columns) const {
    return reopen_if(columns, 0, true, false);
}

std::uint32_t StepClaims::reopen_if(std::uint32_t columns, std::uint32_t owner, bool any_owner,
                                    bool crashed) const {
    const auto tag = static_cast<std::uint32_t>(step_);
    std::uint32_t freed = 0;
    for (std::uint32_t column = 0; column < columns; ++column) {
        auto& word = segment_->claims(slot_)[column];
        std::uint64_t seen = word.load(std::memory_order_acquire);
        const ClaimWord claim = ClaimWord::unpack(seen);
        const bool theirs = claim.owner != 0 && (any_owner || claim.owner == owner);
        if (claim.step_tag != tag || !theirs || is_committed(column)) continue;
        // Several cleaners may come at once: who wins this exchange has the column to himself.
        // SYNC: acq_rel; the dead one's half-done stores come before those of who claims next.
        const std::uint64_t next = ClaimWord{tag, crashed ? kCleaner : 0}.pack();
        if (!word.compare_exchange_strong(seen, next, std::memory_order_acq_rel)) continue;
        if (crashed) free_or_give_up(column, columns);
        ++freed;
    }
    if (freed > 0) {
        segment_->decision_head(slot_).reopened.fetch_add(1, std::memory_order_release);
        segment_->header()
            .counter(SessionCounter::columns_redecided)
            .fetch_add(freed, std::memory_order_relaxed);
    }
    // The dead one may have set the last bit, or refused the record, and died before it rang.
    announce();
    return freed;
}

void StepClaims::free_or_give_up(std::uint32_t column, std::uint32_t columns) const {
    const std::uint32_t crashes =
        segment_->crashes(slot_)[column].fetch_add(1, std::memory_order_relaxed) + 1;
    if (crashes < kCrashLimit) {
        // SYNC: release; pairs with the acquire in try_claim.
        segment_->claims(slot_)[column].store(ClaimWord{static_cast<std::uint32_t>(step_), 0}.pack(),
                                              std::memory_order_release);
        return;
    }
    const auto& asked = segment_->schedule_columns(slot_)[column];
    proto::Decision decision;
    decision.sequence_uid = asked.sequence_uid;
    decision.position = asked.position;
    decision.error = proto::DecisionError::sampler_crashed;
    commit(column, columns, decision);
}

}  // namespace croupier::shm

#include "shm/step_claims.h"

#include <atomic>
#include <bit>

#include "shm/clock.h"
#include "shm/futex.h"
#include "shm/step_window.h"

namespace croupier::shm {

using proto::ClaimWord;
using proto::RefusalWord;
using proto::SessionCounter;

namespace {

SessionCounter counter_of(proto::DecisionError error) {
    switch (error) {
        case proto::DecisionError::none:
            return SessionCounter::columns_decided;
        case proto::DecisionError::voided:
            return SessionCounter::columns_void;
        case proto::DecisionError::rejected:
            return SessionCounter::columns_rejected;
        default:
            return SessionCounter::columns_failed;
    }
}

}  // namespace

bool StepClaims::exchange_claim(std::uint32_t column, std::uint32_t from, std::uint32_t to) const {
    auto& word = segment_->claims(slot_)[column];
    const auto tag = static_cast<std::uint32_t>(step_);
    std::uint64_t expected = ClaimWord{tag, from}.pack();
    if (word.load(std::memory_order_relaxed) != expected) return false;
    // SYNC: acq_rel; a dead owner's half-done stores come before those of who claims next.
    return word.compare_exchange_strong(expected, ClaimWord{tag, to}.pack(), std::memory_order_acq_rel,
                                        std::memory_order_relaxed);
}

bool StepClaims::try_claim(std::uint32_t column, std::uint32_t owner) const {
    return exchange_claim(column, 0, owner);
}

bool StepClaims::try_claim_suspect(std::uint32_t column, std::uint32_t owner) const {
    return exchange_claim(column, kSuspect, owner);
}

bool StepClaims::is_suspect(std::uint32_t column) const {
    const std::uint64_t suspected = ClaimWord{static_cast<std::uint32_t>(step_), kSuspect}.pack();
    return segment_->claims(slot_)[column].load(std::memory_order_relaxed) == suspected;
}

bool StepClaims::has_suspect(std::uint32_t columns) const {
    for (std::uint32_t column = 0; column < columns; ++column) {
        if (is_suspect(column)) return true;
    }
    return false;
}

bool StepClaims::is_committed(std::uint32_t column) const {
    const std::uint64_t bits = segment_->committed(slot_)[column / 64].load(std::memory_order_acquire);
    return (bits >> (column % 64) & 1U) != 0;
}

// What is noted on the way is written over by the last ones: until then the head's line, which all samplers
// read for each column, stays with all of them. So many columns are not all decided between a look at the
// bits and a commit but by samplers whose own commits are later.
bool StepClaims::nears_end(std::uint32_t columns) const {
    constexpr std::uint32_t kNear = 64;
    if (columns <= kNear) return true;
    const std::atomic<std::uint64_t>* bits = segment_->committed(slot_);
    std::uint32_t seen = 0;
    std::uint32_t decided = 0;
    // Most often the first words show that it is far.
    for (std::uint32_t word = 0; seen < columns && decided + kNear >= seen; ++word) {
        seen = std::min(seen + 64, columns);
        decided += static_cast<std::uint32_t>(std::popcount(bits[word].load(std::memory_order_relaxed)));
    }
    return decided + kNear >= seen;
}

void StepClaims::note_commit(std::uint64_t now) const {
    auto& noted = segment_->decision_head(slot_).last_commit_ns;
    std::uint64_t last = noted.load(std::memory_order_relaxed);
    while (last < now && !noted.compare_exchange_weak(last, now, std::memory_order_relaxed)) {
    }
}

bool StepClaims::commit(std::uint32_t column, std::uint32_t columns, const proto::Decision& decision,
                        std::uint64_t now) const {
    segment_->decisions(slot_)[column].store(decision);
    if (nears_end(columns)) note_commit(now);
    // SYNC: seq_cst; pairs with the load in step_complete: the decision and the token in the log are visible
    // with the bit, and of two who commit the last columns, one sees both. fetch_or is idempotent, so a
    // column cannot count twice towards the step.
    segment_->committed(slot_)[column / 64].fetch_or(1ULL << (column % 64), std::memory_order_seq_cst);
    const bool complete = step_complete(*segment_, slot_, columns);
    // Where more samplers than that looked before any of them committed.
    if (complete && segment_->decision_head(slot_).last_commit_ns.load(std::memory_order_relaxed) == 0) {
        note_commit(now);
    }
    if (complete) announce();
    // Counted last: the line is shared by all samplers, and who waits should not wait for it. A sampler that
    // dies before this line leaves a statistic one too low, and no decision.
    segment_->header().counter(counter_of(decision.error)).fetch_add(1, std::memory_order_relaxed);
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
    // SYNC: seq_cst, as where a client says that it sleeps or listens: either it sees the bell, or we see it.
    const bool awaited = header.client_sleeps.load(std::memory_order_seq_cst) != 0 ||
                         header.client_listens.load(std::memory_order_seq_cst) != 0;
    if (awaited) futex_wake_all(header.decided_bell);
}

std::uint32_t StepClaims::claimed_by(std::uint32_t owner, std::uint32_t columns) const {
    const std::uint64_t claim = ClaimWord{static_cast<std::uint32_t>(step_), owner}.pack();
    std::uint32_t count = 0;
    for (std::uint32_t column = 0; column < columns; ++column) {
        const bool theirs = segment_->claims(slot_)[column].load(std::memory_order_acquire) == claim;
        if (theirs && !is_committed(column)) ++count;
    }
    return count;
}

std::uint32_t StepClaims::reopen(std::uint32_t dead_owner, std::uint32_t columns, bool alone) const {
    std::uint32_t freed = 0;
    for (std::uint32_t column = 0; column < columns; ++column) {
        if (is_committed(column)) continue;
        // Several cleaners may come at once: who wins this exchange has the column to itself.
        if (!exchange_claim(column, dead_owner, kCleaner)) continue;
        suspect_or_answer(column, columns, alone);
        ++freed;
    }
    count_reopened(freed);
    return freed;
}

std::uint32_t StepClaims::reopen_all(std::uint32_t columns) const {
    std::uint32_t freed = 0;
    for (std::uint32_t column = 0; column < columns; ++column) {
        const std::uint32_t owner =
            ClaimWord::unpack(segment_->claims(slot_)[column].load(std::memory_order_acquire)).owner;
        const bool held = owner != 0 && owner != kSuspect && owner != kClient;
        if (held && !is_committed(column) && exchange_claim(column, owner, 0)) ++freed;
    }
    count_reopened(freed);
    return freed;
}

void StepClaims::suspect(std::uint32_t column, std::uint32_t columns) const {
    if (!try_claim(column, kCleaner)) return;
    suspect_or_answer(column, columns, true);
    count_reopened(1);
}

void StepClaims::count_reopened(std::uint32_t freed) const {
    if (freed > 0) {
        segment_->decision_head(slot_).reopened.fetch_add(1, std::memory_order_release);
        segment_->header()
            .counter(SessionCounter::columns_redecided)
            .fetch_add(freed, std::memory_order_relaxed);
    }
    // The dead one may have set the last bit, or refused the record, and died before it rang.
    announce();
}

void StepClaims::suspect_or_answer(std::uint32_t column, std::uint32_t columns, bool alone) const {
    auto& count = segment_->crashes(slot_)[column];
    const std::uint32_t crashes = alone ? count.fetch_add(1, std::memory_order_relaxed) + 1 : 0;
    if (crashes >= kCrashLimit) {
        answer(column, columns, proto::DecisionError::sampler_crashed);
        return;
    }
    // SYNC: release; pairs with the acquire in exchange_claim.
    segment_->claims(slot_)[column].store(ClaimWord{static_cast<std::uint32_t>(step_), kSuspect}.pack(),
                                          std::memory_order_release);
}

bool StepClaims::try_claim_void(std::uint32_t column, std::uint32_t owner) const {
    return try_claim(column, owner) || try_claim_suspect(column, owner);
}

bool StepClaims::answer(std::uint32_t column, std::uint32_t columns, proto::DecisionError error) const {
    const proto::ScheduleColumn asked = segment_->schedule_columns(slot_)[column];
    proto::Decision decision;
    decision.sequence_uid = asked.sequence_uid;
    decision.position = asked.position;
    decision.error = error;
    return commit(column, columns, decision);
}

std::uint32_t StepClaims::give_up(std::uint32_t columns, std::uint32_t giver) const {
    std::uint32_t given = 0;
    for (std::uint32_t column = 0; column < columns; ++column) {
        if (is_committed(column)) continue;
        const bool ours = exchange_claim(column, 0, giver) || exchange_claim(column, kSuspect, giver) ||
                          exchange_claim(column, giver, giver);
        if (!ours) continue;
        answer(column, columns, proto::DecisionError::given_up);
        ++given;
    }
    if (given > 0) {
        segment_->header().counter(SessionCounter::steps_given_up).fetch_add(1, std::memory_order_relaxed);
    }
    return given;
}

}  // namespace croupier::shm

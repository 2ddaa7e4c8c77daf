#include "shm/schedule_publisher.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "shm/clock.h"
#include "shm/futex.h"
#include "shm/sequence_table.h"
#include "shm/step_claims.h"
#include "shm/step_window.h"

namespace croupier::shm {

using proto::SessionCounter;

namespace {

// They are far apart, and samplers have read them since, so that a store has to fetch each.
void prefetch_sequences(const Segment& segment, const proto::StoredArray<proto::ScheduleColumn>& columns) {
    for (const proto::ScheduleColumn asked : columns) {
        if (asked.sequence_slot < segment.geometry().max_sequences)
            __builtin_prefetch(&segment.sequence(asked.sequence_slot), 1);
    }
}

}  // namespace

Result<SchedulePublisher> SchedulePublisher::attach(Segment& segment) {
    auto& header = segment.header();
    if (!segment.hold(Role::client)) {
        return fail(Errc::already_held, "session " + std::string(header.name) +
                                            " is held by the live client with pid " +
                                            std::to_string(header.client_pid.load()) +
                                            "; close that one first, or open with takeover to fence it");
    }
    SchedulePublisher publisher(segment);
    // 0 means that no client listens.
    do {
        publisher.epoch_ = header.client_epoch.fetch_add(1, std::memory_order_acq_rel) + 1;
    } while (publisher.epoch_ == 0);
    header.client_pid.store(::getpid(), std::memory_order_relaxed);
    header.client_listens.store(0, std::memory_order_relaxed);
    // The client before may have died with a sequence revised, and nobody told.
    header.revisions.fetch_add(1, std::memory_order_release);
    header.counter(SessionCounter::clients_attached).fetch_add(1, std::memory_order_relaxed);
    const StepWindow window = steps_in_flight(segment);
    if (!window.sound) {
        return fail(Errc::corrupt_header, segment.path() +
                                              ": the step counters contradict each other (published " +
                                              std::to_string(window.end) + ", taken " +
                                              std::to_string(window.first) + "); open a new session");
    }
    publisher.published_ = window.end;
    publisher.taken_ = window.first;
    publisher.complete_what_was_given_up();
    return publisher;
}

Result<bool> check_step(const proto::Geometry& geometry, std::size_t columns, std::uint64_t in_flight) {
    if (columns == 0 || columns > geometry.max_batch) {
        return fail(Errc::bad_argument, "a step has 1 to " + std::to_string(geometry.max_batch) +
                                            " columns in this session, not " + std::to_string(columns));
    }
    if (in_flight < geometry.slots) return true;
    return fail(Errc::ring_full, "all " + std::to_string(geometry.slots) +
                                     " step slots are in flight: take decisions before the next step");
}

// The client before may have died between the two stores by which a column is given up.
void SchedulePublisher::complete_what_was_given_up() const {
    for (std::uint64_t step = taken_; step < published_; ++step) {
        const StepClaims claims(*segment_, step);
        if (claims.claimed_by(StepClaims::kClient, columns_of(step)) == 0) continue;
        claims.give_up(columns_of(step), StepClaims::kClient);
    }
}

Result<bool> SchedulePublisher::not_fenced() const {
    auto& header = segment_->header();
    if (header.state.load(std::memory_order_acquire) == proto::SessionState::fenced ||
        header.client_epoch.load(std::memory_order_acquire) != epoch_) {
        header.counter(SessionCounter::stale_epoch_refused).fetch_add(1, std::memory_order_relaxed);
        return fail(Errc::stale_epoch, "session " + std::string(header.name) +
                                           " was taken over while this client was away (its epoch " +
                                           std::to_string(epoch_) + " is over); open it again");
    }
    return true;
}

Result<bool> SchedulePublisher::may_publish() const {
    CROUPIER_TRY(not_fenced());
    const auto& header = segment_->header();
    const auto state = header.state.load(std::memory_order_acquire);
    if (state == proto::SessionState::draining) {
        return fail(
            Errc::draining,
            "the daemon drains: steps in flight finish, no new ones are taken; wait for them, then open "
            "the session again at the next daemon");
    }
    if (state != proto::SessionState::active) {
        return fail(Errc::session_closed, "session " + std::string(header.name) +
                                              " is closed: open it again, and add its sequences with their "
                                              "outputs");
    }
    return true;
}

// What a writer does not store in this step must not pass for the step's: a smaller step leaves stamps as
// they are, one that is given up all of a rank's words, and 2^28 steps later they read as if they had just
// been stored. Here, because nobody reads the slot: its last step is taken, and samplers and writers (a CUDA
// graph's replay too) look at the next one behind `published`. A client that dies before that has a successor
// that publishes the same step.
void SchedulePublisher::reset_logits(std::uint32_t slot, std::uint32_t columns, std::uint32_t flags) const {
    for (std::uint32_t rank = 0; rank < segment_->geometry().tp; ++rank) {
        proto::ReadyCell& ready = segment_->ready(slot, rank);
        ready.word.store(0, std::memory_order_relaxed);
        for (auto& stamp : ready.stamps) stamp.store(0, std::memory_order_relaxed);
    }
    if ((flags & proto::kRandomsSupplied) != 0)
        segment_->randoms_ready(slot).store(0, std::memory_order_relaxed);
    if ((flags & proto::kWindows) == 0) return;
    for (std::uint32_t rank = 0; rank < segment_->geometry().tp; ++rank) {
        for (std::uint32_t column = 0; column < columns; ++column)
            segment_->inputs(slot, rank)[column].store(proto::RowInput{}.pack(), std::memory_order_relaxed);
    }
}

void SchedulePublisher::reset_decisions(std::uint32_t slot, std::uint64_t step, std::uint32_t columns) const {
    auto& head = segment_->decision_head(slot);
    const std::uint64_t unclaimed = proto::ClaimWord{static_cast<std::uint32_t>(step), 0}.pack();
    for (std::uint32_t word = 0; word < proto::bitmap_words(columns); ++word) {
        segment_->committed(slot)[word].store(0, std::memory_order_relaxed);
    }
    auto* const crashes = segment_->crashes(slot);
    auto* const claims = segment_->claims(slot);
    for (std::uint32_t column = 0; column < columns; ++column) {
        crashes[column].store(0, std::memory_order_relaxed);
        claims[column].store(unclaimed, std::memory_order_relaxed);
    }
    head.refusal.store(proto::RefusalWord{static_cast<std::uint32_t>(step), 0}.pack(),
                       std::memory_order_relaxed);
    head.reopened.store(0, std::memory_order_relaxed);
    head.logits_ready_ns.store(0, std::memory_order_relaxed);
    head.last_commit_ns.store(0, std::memory_order_relaxed);
    head.step.store(step, std::memory_order_relaxed);
}

Result<bool> SchedulePublisher::check_next(std::size_t columns) const {
    auto fits = check_step(segment_->geometry(), columns, published_ - taken_);
    auto& full = segment_->header().counter(SessionCounter::schedule_ring_full);
    if (!fits && fits.error().code == Errc::ring_full) full.fetch_add(1, std::memory_order_relaxed);
    return fits;
}

Result<std::uint64_t> SchedulePublisher::publish(std::span<const proto::ScheduleColumn> columns,
                                                 std::uint32_t flags) {
    auto& header = segment_->header();
    CROUPIER_TRY(may_publish());
    CROUPIER_TRY(check_next(columns.size()));
    const std::uint64_t step = published_;
    const std::uint32_t slot = segment_->slot_of(step);
    const auto count = static_cast<std::uint32_t>(columns.size());
    // SYNC: pairs with the fence in shm/column_due.cpp: whoever reads a word of this step where it looks
    // for the slot's last one sees that `taken` has gone beyond that.
    std::atomic_thread_fence(std::memory_order_release);
    reset_logits(slot, count, flags);
    reset_decisions(slot, step, count);
    auto& record = segment_->schedule(slot);
    const std::uint32_t revisions = header.revisions.load(std::memory_order_relaxed);
    record = {step, count, epoch_, flags, revisions, monotonic_ns(), 0, record.taken_ns, {}};
    const auto places = segment_->schedule_columns(slot);
    for (std::uint32_t column = 0; column < count; ++column) places[column].store(columns[column]);
    // SYNC: release; pairs with the acquire in steps_in_flight (samplers, writers, supervisor).
    header.published.store(step + 1, std::memory_order_release);
    published_ = step + 1;
    header.counter(SessionCounter::steps_published).fetch_add(1, std::memory_order_relaxed);
    return step;
}

std::uint32_t* SchedulePublisher::next_mask_row(std::uint32_t row) const {
    return segment_->mask_row(segment_->slot_of(published_), row);
}

std::uint32_t SchedulePublisher::columns_of(std::uint64_t step) const {
    return std::min(segment_->schedule(segment_->slot_of(step)).columns, segment_->geometry().max_batch);
}

Error not_in_flight(std::uint64_t step, std::uint64_t first, std::uint64_t end) {
    std::string others = "no step is";
    if (first + 1 == end) others = "step " + std::to_string(first) + " is";
    if (first + 1 < end)
        others = "steps " + std::to_string(first) + " to " + std::to_string(end - 1) + " are";
    return {Errc::bad_argument, "step " + std::to_string(step) + " is not in flight; " + others};
}

Result<bool> SchedulePublisher::give_up(std::uint64_t step) const {
    CROUPIER_TRY(not_fenced());
    if (step < taken_ || step >= published_) return not_in_flight(step, taken_, published_);
    StepClaims(*segment_, step).give_up(columns_of(step), StepClaims::kClient);
    return true;
}

bool SchedulePublisher::next_complete() const {
    return taken_ != published_ && step_complete(*segment_, segment_->slot_of(taken_), columns_of(taken_));
}

proto::StoredArray<const proto::Decision> SchedulePublisher::next_decisions() const {
    return segment_->decisions(segment_->slot_of(taken_)).part(0, columns_of(taken_));
}

proto::DecisionError SchedulePublisher::next_refusal() const {
    return step_refusal(*segment_, segment_->slot_of(taken_));
}

void SchedulePublisher::count_times(std::uint32_t slot) const {
    auto& header = segment_->header();
    const auto& head = segment_->decision_head(slot);
    const std::uint64_t published = segment_->schedule(slot).published_ns;
    const std::uint64_t ready = head.logits_ready_ns.load(std::memory_order_relaxed);
    const std::uint64_t done = head.last_commit_ns.load(std::memory_order_relaxed);
    if (ready == 0 || done < ready || ready < published) return;
    const std::uint64_t waiting = waiting_since_ns_ == 0 ? done : std::max(waiting_since_ns_, ready);
    header.counter(SessionCounter::logits_wait_ns).fetch_add(ready - published, std::memory_order_relaxed);
    header.counter(SessionCounter::step_decision_ns).fetch_add(done - ready, std::memory_order_relaxed);
    header.counter(SessionCounter::exposed_ns)
        .fetch_add(done > waiting ? done - waiting : 0, std::memory_order_relaxed);
}

// Before `taken` is stored: a client that dies in between is followed by one that does it again.
void SchedulePublisher::extend_logs(std::uint32_t slot) const {
    const bool refused = next_refusal() != proto::DecisionError::none;
    const proto::Geometry& geometry = segment_->geometry();
    const auto columns = segment_->schedule_columns(slot).part(0, columns_of(taken_));
    const auto decisions = segment_->decisions(slot);
    prefetch_sequences(*segment_, columns);
    for (std::size_t column = 0; column < columns.size(); ++column) {
        const proto::ScheduleColumn asked = columns[column];
        if (asked.sequence_slot >= geometry.max_sequences) continue;
        auto& entry = segment_->sequence(asked.sequence_slot);
        // Of another revision: void, whatever was decided.
        if (entry.uid != asked.sequence_uid ||
            entry.revision(std::memory_order_relaxed).number != asked.revision)
            continue;
        const proto::Decision decision = decisions[column];
        const std::uint32_t length = entry.length.load(std::memory_order_relaxed);
        const bool decided = !refused && decision.error == proto::DecisionError::none;
        // Else a client before has been here.
        const bool next = length == std::uint64_t{entry.prompt_length} + decision.position;
        if (decided && next && length < geometry.max_length) {
            // SYNC: release; pairs with the acquire in due_of(). The token was visible with its column's
            // bit.
            entry.length.store(length + 1, std::memory_order_release);
        }
        if (refused || proto::ends_sequence(decision))
            revise(*segment_, asked.sequence_slot, entry.length.load(std::memory_order_relaxed), taken_);
    }
}

void SchedulePublisher::count_drafts(std::uint32_t slot) const {
    if ((segment_->schedule(slot).flags & proto::kWindows) == 0) return;
    std::uint64_t offered = 0;
    std::uint64_t accepted = 0;
    for (std::uint32_t column = 0; column < columns_of(taken_); ++column) {
        const proto::ScheduleColumn asked = segment_->schedule_columns(slot)[column];
        const auto input =
            proto::RowInput::unpack(segment_->inputs(slot, 0)[column].load(std::memory_order_relaxed));
        const proto::Decision decision = segment_->decisions(slot)[column];
        const bool right = decision.error == proto::DecisionError::none;
        if (asked.row == 0 || input.token < 0) continue;
        if (right) ++accepted;
        if (right || decision.error == proto::DecisionError::rejected) ++offered;
    }
    auto& header = segment_->header();
    header.counter(SessionCounter::drafts_offered).fetch_add(offered, std::memory_order_relaxed);
    header.counter(SessionCounter::drafts_accepted).fetch_add(accepted, std::memory_order_relaxed);
}

void SchedulePublisher::take() {
    const std::uint32_t slot = segment_->slot_of(taken_);
    extend_logs(slot);
    count_times(slot);
    count_drafts(slot);
    segment_->schedule(slot).taken_ns = monotonic_ns();
    waiting_since_ns_ = 0;
    ++taken_;
    auto& header = segment_->header();
    header.counter(SessionCounter::steps_taken).fetch_add(1, std::memory_order_relaxed);
    // SYNC: release; pairs with the acquire in steps_in_flight: our reads of the slot are over.
    header.taken.store(taken_, std::memory_order_release);
}

void SchedulePublisher::sleep(std::chrono::nanoseconds timeout) const {
    auto& header = segment_->header();
    const std::uint32_t seen = header.decided_bell.load(std::memory_order_acquire);
    // seq_cst, here and in StepClaims::announce: either we see the bit, or the sampler sees us asleep.
    header.client_sleeps.store(1, std::memory_order_seq_cst);
    if (!next_complete()) futex_wait(header.decided_bell, seen, timeout);
    header.client_sleeps.store(0, std::memory_order_relaxed);
}

}  // namespace croupier::shm

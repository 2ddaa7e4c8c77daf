// The scheduler's side of a session's rings: publishes steps, takes their decisions.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "shm/segment.h"

namespace croupier::shm {

// Whether a step of so many columns may be published while so many are in flight: bad_argument, ring_full.
Result<bool> check_step(const proto::Geometry& geometry, std::size_t columns, std::uint64_t in_flight);
// Of a step that is not among those from `first` on to `end`.
Error not_in_flight(std::uint64_t step, std::uint64_t first, std::uint64_t end);

class SchedulePublisher {
  public:
    // Locks the client's role and begins a new epoch. Fails with already_held, naming the holder.
    static Result<SchedulePublisher> attach(Segment& segment);

    std::uint32_t epoch() const { return epoch_; }
    // The steps that an earlier client left in flight lie between them.
    std::uint64_t next_to_publish() const { return published_; }
    std::uint64_t next_to_take() const { return taken_; }

    // Whether a step of so many columns may be published: ring_full when every slot is in flight.
    Result<bool> check_next(std::size_t columns) const;
    // Masks go to next_mask_row() before.
    Result<std::uint64_t> publish(std::span<const proto::ScheduleColumn> columns, std::uint32_t flags = 0);
    // Where the masks of the step that is published next are to be written.
    std::uint32_t* next_mask_row(std::uint32_t row) const;

    bool next_complete() const;
    // The decisions of step next_to_take(), valid until take().
    proto::StoredArray<const proto::Decision> next_decisions() const;
    proto::DecisionError next_refusal() const;
    void take();
    // Answers with given_up what nobody decides of a step in flight; it is complete when those who decide the
    // rest are done.
    Result<bool> give_up(std::uint64_t step) const;

    // Sleeps until a step may have completed, or for `timeout`.
    void sleep(std::chrono::nanoseconds timeout) const;
    // stale_epoch once the session belongs to somebody else, draining or session_closed by its state.
    Result<bool> may_publish() const;
    // When the scheduler had nothing to do but wait for the next step: what of the decision was exposed.
    void note_waiting_since(std::uint64_t monotonic_ns) { waiting_since_ns_ = monotonic_ns; }

  private:
    explicit SchedulePublisher(Segment& segment) : segment_(&segment) {}
    Result<bool> not_fenced() const;
    void complete_what_was_given_up() const;
    void reset_logits(std::uint32_t slot, std::uint32_t columns, std::uint32_t flags) const;
    void reset_decisions(std::uint32_t slot, std::uint64_t step, std::uint32_t columns) const;
    std::uint32_t columns_of(std::uint64_t step) const;
    void extend_logs(std::uint32_t slot) const;
    void count_times(std::uint32_t slot) const;
    void count_drafts(std::uint32_t slot) const;

    Segment* segment_;
    std::uint32_t epoch_ = 0;
    std::uint64_t published_ = 0;
    std::uint64_t taken_ = 0;
    std::uint64_t waiting_since_ns_ = 0;
};

}  // namespace croupier::shm

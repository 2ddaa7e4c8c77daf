// A session's ring and sequence table in this host's shared memory. It holds the session as its client.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "client/daemon_watch.h"
#include "client/decision_signal.h"
#include "client/live_sequences.h"
#include "client/schedule_place.h"
#include "shm/schedule_publisher.h"
#include "shm/segment.h"
#include "shm/step_window.h"

namespace croupier::client {

class LocalRing final : public SchedulePlace {
  public:
    static shm::Result<std::unique_ptr<LocalRing>> attach(const std::string& segment_path,
                                                          bool randoms_supplied);

    const std::string& segment_path() const override { return segment_->path(); }
    const proto::Geometry& geometry() const override { return segment_->geometry(); }
    const shm::Segment& segment() const { return *segment_; }
    const proto::SegmentHeader& header() const { return segment_->header(); }
    // The bytes of SamplingParams that this library and the segment's maker both know.
    std::uint32_t params_bytes() const {
        const std::uint64_t theirs = segment_->layout().elements.params;
        return static_cast<std::uint32_t>(std::min<std::uint64_t>(theirs, sizeof(proto::SamplingParams)));
    }

    shm::Result<bool> add(const croupier_sequence& sequence) override;
    shm::Result<bool> fork(const shm::Fork& fork) override;
    shm::Result<bool> finish(std::uint64_t uid) override;
    shm::Result<bool> truncate(std::uint64_t uid, std::uint32_t outputs) override;
    shm::Result<bool> check_append(std::uint64_t uid, std::size_t count) override;
    shm::Result<bool> append(std::uint64_t uid, std::span<const std::int32_t> tokens) override;
    std::size_t held() const override { return sequences_.held(); }
    std::size_t list(std::span<std::uint64_t> uids) const override { return sequences_.list(uids); }
    shm::Result<std::span<const std::int32_t>> output(std::uint64_t uid) const override {
        return sequences_.output(uid);
    }
    shm::Result<std::vector<FoundText>> found_texts() const override;
    shm::Result<FoundText> found_text(std::uint64_t uid) const { return sequences_.found_text(uid); }

    shm::Result<std::uint64_t> submit(std::span<const croupier_column> columns) override;
    std::uint64_t next_to_publish() const override { return publisher_.next_to_publish(); }
    std::uint64_t next_to_take() const override { return publisher_.next_to_take(); }
    std::span<const std::uint64_t> uids_of_next() const override { return uids_of(next_to_take()); }
    std::span<const std::uint64_t> uids_of(std::uint64_t step) const {
        return uids_in_step_[segment_->slot_of(step)];
    }
    bool next_is_void(std::size_t column) const override { return is_void(next_to_take(), column); }
    bool is_void(std::uint64_t step, std::size_t column) const;
    // In the sequence table.
    std::optional<std::uint32_t> slot_of(std::uint64_t uid) const { return sequences_.slot_of(uid); }
    std::uint32_t slot_in(std::uint64_t step, std::size_t column) const {
        return segment_->schedule_columns(segment_->slot_of(step))[column].load().sequence_slot;
    }
    shm::Result<bool> give_up(std::uint64_t step) override { return publisher_.give_up(step); }
    shm::Result<bool> take(std::span<const croupier_decision> decisions) override;

    shm::Result<bool> check_usable() override;
    bool daemon_alive() override { return watch_.alive(*segment_); }
    bool can_be_found() const override { return !segment_->removed(); }
    std::uint32_t daemon_generation() const {
        return segment_->header().daemon_generation.load(std::memory_order_acquire);
    }

    // Whether the session accepts records: it is not fenced, closed or draining.
    shm::Result<bool> may_publish() const { return publisher_.may_publish(); }
    bool next_complete() const { return publisher_.next_complete(); }
    proto::StoredArray<const proto::Decision> next_decisions() const { return publisher_.next_decisions(); }
    proto::DecisionError next_refusal() const { return publisher_.next_refusal(); }
    proto::StoredArray<const proto::RankedLogprob> next_logprobs(std::uint32_t column) const {
        return shm::asked_logprobs(segment_->logprobs(segment_->slot_of(next_to_take()), column));
    }
    shm::AnsweredSupport next_support(std::uint32_t column) const {
        return shm::answered_support(*segment_, segment_->slot_of(next_to_take()), column);
    }
    shm::Result<std::unique_ptr<DecisionSignal>> start_signal() const {
        return DecisionSignal::start(*segment_, publisher_.epoch());
    }
    // The scheduler only waits for the step next_to_take().
    void note_waiting();
    void sleep(std::chrono::nanoseconds timeout) const { publisher_.sleep(timeout); }

  private:
    LocalRing(std::unique_ptr<shm::Segment> segment, shm::SchedulePublisher publisher, bool randoms_supplied);
    void recall_steps_in_flight();
    shm::Result<bool> ring_if_void(const shm::Result<bool>& in_flight);
    shm::Result<bool> build_columns(std::span<const croupier_column> asked, std::uint64_t step);
    void copy_masks(std::span<const croupier_column> asked) const;

    std::unique_ptr<shm::Segment> segment_;
    shm::SchedulePublisher publisher_;
    LiveSequences sequences_;
    DaemonWatch watch_;
    std::uint32_t record_flags_;                            // of every step that is submitted
    std::vector<std::vector<std::uint64_t>> uids_in_step_;  // by slot; kept here to check each decided step
    std::vector<std::vector<LiveSequences::Entry*>>
        entries_in_step_;  // of the same columns; null: no sequence
    std::vector<proto::ScheduleColumn> columns_;
    std::vector<LiveSequences::Entry*> entries_;       // of columns_
    std::uint64_t waiting_noted_ = ~std::uint64_t{0};  // the step
};

}  // namespace croupier::client

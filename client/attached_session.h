// One session, from open to close: what stands behind the C ABI of client/croupier.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/croupier.h"
#include "client/daemon_link.h"
#include "client/daemon_watch.h"
#include "client/decision_stream.h"
#include "client/live_sequences.h"
#include "shm/bell.h"
#include "shm/schedule_publisher.h"
#include "shm/segment.h"

namespace croupier::client {

class AttachedSession {
  public:
    static shm::Result<std::unique_ptr<AttachedSession>> open(const croupier_open_options& options);

    const std::string& segment_path() const { return segment_->path(); }
    bool resumed() const { return link_.facts().resumed; }
    const LiveSequences& sequences() const { return sequences_; }

    shm::Result<bool> add(const croupier_sequence& sequence);
    shm::Result<bool> finish(std::uint64_t uid);
    shm::Result<std::uint64_t> submit(std::span<const croupier_column> columns);
    std::uint32_t in_flight() const;
    // The oldest step in flight, if it is decided in time; its decisions stay until the next call. A daemon
    // that is dead meanwhile is an error only when the time is over: a restarted one goes on with the
    // session.
    shm::Result<std::optional<croupier_step>> wait(std::chrono::milliseconds timeout);
    shm::Result<bool> close() { return link_.close(); }

  private:
    using Deadline = std::chrono::steady_clock::time_point;

    AttachedSession(DaemonLink link, std::unique_ptr<shm::Segment> segment, shm::SchedulePublisher publisher,
                    shm::Bell bell);
    static shm::Result<std::unique_ptr<AttachedSession>> attach(DaemonLink& link, const OpenRequest& request);
    void recall_steps_in_flight();
    void subscribe();

    shm::Result<bool> check_usable() const;
    std::vector<std::uint64_t>& uids_of(std::uint64_t step) { return uids_in_step_[segment_->slot_of(step)]; }
    shm::Result<bool> build_columns(std::span<const croupier_column> asked, std::uint64_t step);
    void copy_masks(std::span<const croupier_column> asked) const;
    void leave_step(std::uint64_t step);

    shm::Result<bool> wait_on_ring(Deadline deadline);
    shm::Result<bool> wait_on_stream(Deadline deadline);
    shm::Result<bool> take(proto::DecisionError refused, std::span<const proto::Decision> decisions);

    DaemonLink link_;
    std::unique_ptr<shm::Segment> segment_;
    shm::SchedulePublisher publisher_;
    shm::Bell bell_;
    LiveSequences sequences_;
    DaemonWatch watch_;
    std::optional<DecisionStream> stream_;  // when decisions come over ZMQ
    std::uint32_t record_flags_ = 0;        // of every step that is submitted

    std::vector<std::vector<std::uint64_t>>
        uids_in_step_;  // by slot; ours, so that a step is checked against it
    std::vector<proto::ScheduleColumn> columns_;
    std::vector<croupier_decision> taken_;
    croupier_step taken_step_{};
    std::optional<std::uint64_t> waiting_noted_;
};

}  // namespace croupier::client

// One session, from open to close: what stands behind the C ABI of client/croupier.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/daemon_link.h"
#include "client/decision_stream.h"
#include "client/local_ring.h"
#include "croupier/client.h"

namespace croupier::client {

class AttachedSession {
  public:
    static shm::Result<std::unique_ptr<AttachedSession>> open(const croupier_open_options& options);

    const std::string& segment_path() const { return place_->segment_path(); }
    bool resumed() const { return link_.facts().resumed; }

    shm::Result<bool> add(const croupier_sequence& given);
    shm::Result<bool> finish(std::uint64_t uid) { return place_->finish(uid); }
    shm::Result<bool> truncate(std::uint64_t uid, std::uint32_t outputs) {
        return place_->truncate(uid, outputs);
    }
    std::size_t list(std::span<std::uint64_t> uids) const { return place_->list(uids); }
    shm::Result<std::span<const std::int32_t>> output(std::uint64_t uid) const { return place_->output(uid); }

    // A column has `size` bytes in its caller's eyes.
    shm::Result<std::uint64_t> submit(const croupier_column* columns, std::size_t count, std::size_t size);
    std::uint32_t in_flight() const;
    shm::Result<bool> give_up(std::uint64_t step) { return place_->give_up(step); }
    // The oldest step in flight, if it is decided in time; its decisions stay until the next call. A daemon
    // that is dead meanwhile is an error only when the time is over: a restarted one goes on with the
    // session.
    shm::Result<std::optional<croupier_step>> wait(std::chrono::milliseconds timeout);
    // Readable when wait() may have something to give; wait() it is that makes it unreadable again.
    shm::Result<int> event_descriptor();
    shm::Result<bool> close() { return link_.close(); }

  private:
    using Deadline = std::chrono::steady_clock::time_point;

    AttachedSession(DaemonLink link, std::unique_ptr<SchedulePlace> place, LocalRing* ring,
                    std::optional<DecisionStream> stream);
    static shm::Result<std::unique_ptr<AttachedSession>> attach(DaemonLink& link, const OpenRequest& request);
    void subscribe() { stream_->keep_subscribed(place_->daemon_generation()); }

    shm::Result<bool> wait_on_ring(Deadline deadline);
    shm::Result<bool> wait_on_stream(Deadline deadline);
    // A step as it came: in the ring, or in a message.
    struct Decided {
        proto::DecisionError refused = proto::DecisionError::none;
        proto::StoredArray<const proto::Decision> decisions;
        const StreamedStep* message = nullptr;  // null: in the ring
    };
    Decided decided_in_ring() const { return {ring_->next_refusal(), ring_->next_decisions(), nullptr}; }
    shm::Result<bool> take(const Decided& decided);
    shm::Result<bool> take_all_ranked(const Decided& decided);
    shm::Result<bool> take_all_support(const Decided& decided);
    shm::Result<bool> take_support(const shm::AnsweredSupport& support, croupier_decision& decision);
    shm::Result<bool> take_ranked(const proto::StoredArray<const proto::RankedLogprob>& ranked,
                                  croupier_decision& decision);

    DaemonLink link_;
    std::unique_ptr<SchedulePlace> place_;
    LocalRing* ring_;                         // place_, where it is the ring itself
    std::optional<DecisionStream> stream_;    // when decisions come over ZMQ
    std::unique_ptr<DecisionSignal> signal_;  // when somebody asked for a descriptor of the ring
    std::vector<croupier_column> columns_;
    std::vector<croupier_decision> taken_;
    std::vector<croupier_logprob> taken_best_;  // of all of them
    std::vector<croupier_survivor> taken_support_;
    croupier_step taken_step_{};
};

}  // namespace croupier::client

// One session, from open to close: the implementation of croupier_session (include/croupier/client.h).
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
#include "client/relayed_ring.h"
#include "croupier/client.h"

namespace croupier::client {

class AttachedSession {
  public:
    static shm::Result<std::unique_ptr<AttachedSession>> open(const croupier_open_options& options);

    const std::string& segment_path() const { return place_->segment_path(); }
    bool resumed() const { return link_.facts().resumed; }

    shm::Result<bool> add(const croupier_sequence& given);
    shm::Result<bool> fork(const shm::Fork& fork);
    shm::Result<bool> finish(std::uint64_t uid);
    shm::Result<bool> truncate(std::uint64_t uid, std::uint32_t outputs);
    shm::Result<bool> append(std::uint64_t uid, std::span<const std::int32_t> tokens);
    // Whether append() of so many tokens of the vocabulary would be done.
    shm::Result<bool> check_append(std::uint64_t uid, std::size_t count) {
        return place_->check_append(uid, count);
    }
    // Sequences that have a place: live, or finished and in flight.
    std::size_t held() const { return place_->held(); }
    const proto::Geometry& geometry() const { return place_->geometry(); }
    std::size_t list(std::span<std::uint64_t> uids) const { return place_->list(uids); }
    shm::Result<std::span<const std::int32_t>> output(std::uint64_t uid) const { return place_->output(uid); }
    // Of its released bytes, those from `from` on, as far as there is room. Returns how many there are.
    shm::Result<std::uint64_t> text(std::uint64_t uid, std::uint64_t from, std::span<char> to) const;
    // The stop string that the last token of its output completes.
    shm::Result<std::optional<text::FoundStop>> stop(std::uint64_t uid) const;

    // `size` is sizeof(croupier_column) in the caller's build.
    shm::Result<std::uint64_t> submit(const croupier_column* columns, std::size_t count, std::size_t size);
    std::uint32_t in_flight() const;
    shm::Result<bool> give_up(std::uint64_t step) { return place_->give_up(step); }
    // The oldest step in flight, if it is decided in time. Its decisions stay valid until the next call. A
    // dead daemon is an error only when the time is over, because a restarted one continues the session.
    shm::Result<std::optional<croupier_step>> wait(std::chrono::milliseconds timeout);
    // Readable when wait() may have a step. Call wait() until it returns nothing, then poll again.
    shm::Result<int> event_descriptor();
    // Nothing is left to do where the session has ended; what another client took over is not this one's to
    // end.
    shm::Result<bool> close();

  private:
    using Deadline = std::chrono::steady_clock::time_point;

    explicit AttachedSession(DaemonLink link) : link_(std::move(link)) {}
    shm::Result<bool> attach(OpenRequest& request);
    shm::Result<bool> attach_place(const OpenRequest& request);
    shm::Result<bool> choose_stream(bool over_zmq);
    shm::Result<bool> begin_texts(text::TokenTable tokens);
    shm::Result<const SessionTexts::Text*> find_text(std::uint64_t uid) const;

    shm::Result<bool> wait_on_ring(Deadline deadline);
    shm::Result<bool> wait_for_message(Deadline deadline);
    // Or else daemon_gone.
    shm::Result<bool> daemon_is_there();
    // A decided step, from the ring or from a message.
    struct Decided {
        proto::DecisionError refused = proto::DecisionError::none;
        proto::StoredArray<const proto::Decision> decisions;
        const StreamedStep* message = nullptr;  // null: from the ring
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
    std::unique_ptr<SessionTexts> texts_;     // if the session has a tokenizer, and the client keeps texts
    LocalRing* ring_ = nullptr;               // place_, if the session is on this host
    std::unique_ptr<DecisionStream> stream_;  // if the daemon sends the decisions over ZMQ
    RelayedRing* relayed_ = nullptr;          // place_, if it is on another host
    StepMessages* messages_ = nullptr;        // the stream or the relay; null: decisions come by the ring
    std::unique_ptr<DecisionSignal> signal_;  // if the caller asked for a descriptor of the ring
    std::vector<croupier_column> columns_;
    std::vector<croupier_decision> taken_;
    std::vector<croupier_logprob> taken_best_;  // of all decisions in taken_
    std::vector<croupier_survivor> taken_support_;
    croupier_step taken_step_{};
};

}  // namespace croupier::client

// The relay's side: applies a remote scheduler's records to a session on this host and returns the decisions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/local_ring.h"
#include "proto/wire.h"
#include "shm/decision_sender.h"

namespace croupier::client {

using AnswerBytes = std::vector<std::uint8_t>;

// What the relay did that deserves a line in a log.
struct RelayNews {
    enum class Kind : std::uint8_t { attached, let_go, refused };
    Kind kind;
    std::string session;  // its name; empty: the relay holds none
    std::string text;     // the segment's path or the reason
};

// Holds the session as its client from AttachSession to DetachSession. Keeps no state that the segment does
// not have: after a relay dies, the scheduler attaches to the next one.
class RingRelay {
  public:
    // The session that AttachSession may name, and where it is. A peer names no files here.
    void allow(std::uint64_t session_id, std::string segment_path) {
        allowed_id_ = session_id;
        allowed_path_ = std::move(segment_path);
    }
    // `record` is aligned for every type. Returns the answer, if the record has one. news() has the rest of
    // an answer that is too long for one message.
    std::optional<AnswerBytes> apply(std::span<const std::uint8_t> record);
    // The next message that comes unasked: a decided step, the daemon's death or return, the session's end,
    // or another part of the answer to AttachSession.
    std::optional<AnswerBytes> news();
    // Readable when a step may be decided; -1 without a session. news() makes it unreadable again.
    int descriptor() const { return signal_ == nullptr ? -1 : signal_->descriptor(); }

    // Frees the session for another client. `why` is for the log.
    void let_go(const std::string& why);
    bool attached() const { return ring_ != nullptr; }
    // 0 without a session.
    std::uint64_t steps_in_flight() const;
    // In order of time.
    std::vector<RelayNews> take_news() { return std::exchange(news_, {}); }

  private:
    shm::Result<bool> carry_out(const wire::Message& message);
    shm::Result<bool> attach(const wire::AttachSession& record);
    shm::Result<bool> add(const wire::AddSequence& record);
    shm::Result<bool> submit(const wire::SubmitStep& record);
    shm::Result<bool> take(const wire::TakeSteps& record);
    // The next part of the answer to AttachSession; the last one, when untold_ is empty.
    AnswerBytes attached_part();
    AnswerBytes refusal(std::uint64_t record, const shm::Error& error);

    std::uint64_t allowed_id_ = 0;
    std::string allowed_path_;  // empty: none is allowed
    std::unique_ptr<LocalRing> ring_;
    std::unique_ptr<DecisionSignal> signal_;  // of ring_, as is the sender
    std::optional<shm::DecisionSender> sender_;
    std::string name_;
    std::uint64_t last_record_ = 0;
    std::optional<bool> alive_told_;
    std::vector<croupier_column> columns_;
    std::vector<RelayNews> news_;
    std::vector<std::uint64_t> untold_;  // live sequences that the answer to AttachSession still lacks
};

}  // namespace croupier::client

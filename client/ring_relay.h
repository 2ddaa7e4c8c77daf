// The relay's half: carries out a remote scheduler's records on a session of this host.
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

namespace croupier::client {

using AnswerBytes = std::vector<std::uint8_t>;

// What became of the last record, where that is worth a line of a log.
struct RelayNews {
    enum class Kind : std::uint8_t { attached, let_go, refused };
    Kind kind;
    std::string session;  // its name; empty: none is held
    std::string text;     // the segment's path, or why
};

// Holds the session as its client from AttachSession to DetachSession. Keeps nothing that the segment does
// not hold: a relay that dies is followed by another, to which the scheduler attaches anew.
class RingRelay {
  public:
    RingRelay(std::string shm_directory, std::string instance)
        : directory_(std::move(shm_directory)), instance_(std::move(instance)) {}

    // `record` is aligned for every type. The answer, when there is one to give.
    std::optional<AnswerBytes> apply(std::span<const std::uint8_t> record);
    // What the scheduler should know and did not cause: the daemon died or came back, the session is over.
    std::optional<AnswerBytes> news();

    // The session is free for another client; `why` is for the log.
    void let_go(const std::string& why);
    bool attached() const { return ring_ != nullptr; }
    // Published and not taken; 0 without a session.
    std::uint64_t steps_in_flight() const;
    // In the order in which they came.
    std::vector<RelayNews> take_news() { return std::exchange(news_, {}); }

  private:
    shm::Result<bool> carry_out(const wire::Message& message);
    shm::Result<bool> attach(const wire::AttachSession& record);
    shm::Result<bool> add(const wire::AddSequence& record);
    shm::Result<bool> submit(const wire::SubmitStep& record);
    shm::Result<bool> take(const wire::TakeSteps& record);
    AnswerBytes attached_answer() const;
    AnswerBytes refusal(const shm::Error& error);

    std::string directory_;
    std::string instance_;
    std::unique_ptr<LocalRing> ring_;
    std::string name_;
    std::uint64_t last_record_ = 0;
    bool alive_told_ = false;
    std::optional<std::uint32_t> generation_told_;
    std::vector<croupier_column> columns_;
    std::vector<RelayNews> news_;
};

}  // namespace croupier::client

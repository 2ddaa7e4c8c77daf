// The decisions of a session as the daemon sends them over ZMQ.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/dealer.h"
#include "proto/sampling.h"

namespace croupier::client {

struct StreamedStep {
    std::uint64_t step = 0;
    proto::DecisionError refused = proto::DecisionError::none;
    std::vector<proto::Decision> decisions;
    std::vector<proto::RankedLogprob> ranked;  // of all columns, one after the other
    std::vector<std::uint32_t> ranked_counts;  // of each column; empty: there are none
    std::vector<proto::Survivor> survivors;    // likewise
    std::vector<std::uint32_t> survivor_counts;
    std::vector<std::uint32_t> survivor_totals;
};

class DecisionStream {
  public:
    DecisionStream(Dealer dealer, std::uint64_t session_id)
        : dealer_(std::move(dealer)), session_id_(session_id) {}

    // Subscribes when the daemon is another than before, or has kept silent for too long: a message that
    // was under way when it died is lost, and the daemon sends again whatever has not been taken.
    void keep_subscribed(std::uint32_t daemon_generation);
    // The next message that is about this session, if one comes in time.
    shm::Result<std::optional<StreamedStep>> receive(std::chrono::milliseconds timeout);
    // Readable when a message may have come; receive() it is that makes it unreadable again.
    int descriptor() const { return dealer_.descriptor(); }
    void note_progress() { quiet_since_ = std::chrono::steady_clock::now(); }

  private:
    void subscribe();

    Dealer dealer_;
    std::uint64_t session_id_;
    std::optional<std::uint32_t> generation_;
    std::chrono::steady_clock::time_point quiet_since_;
};

}  // namespace croupier::client

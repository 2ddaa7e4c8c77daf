// The decisions of a session on this host, which the daemon sends over ZMQ.
#pragma once

#include "client/dealer.h"
#include "client/local_ring.h"
#include "client/streamed_step.h"

namespace croupier::client {

class DecisionStream final : public StepMessages {
  public:
    // `ring` must outlive this.
    DecisionStream(Dealer dealer, std::uint64_t session_id, const LocalRing& ring)
        : dealer_(std::move(dealer)), session_id_(session_id), ring_(&ring) {
        keep_subscribed();
    }

    shm::Result<std::optional<StreamedStep>> receive(std::chrono::milliseconds timeout) override;

  private:
    void keep_subscribed();

    Dealer dealer_;
    std::uint64_t session_id_;
    const LocalRing* ring_;
    std::optional<std::uint32_t> generation_;            // of the daemon at the last subscription
    std::chrono::steady_clock::time_point quiet_since_;  // the last step or subscription
};

}  // namespace croupier::client

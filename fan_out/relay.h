// The loop of `croupier relay`: from one group to the next, until it is told to stop.
#pragma once

#include <atomic>
#include <string>

#include "client/ring_relay.h"
#include "fan_out/fan_out.h"

namespace croupier::fan_out {

class Relay {
  public:
    Relay(FanOutOptions group, std::string shm_directory, std::string instance)
        : group_(std::move(group)), directory_(std::move(shm_directory)), instance_(std::move(instance)) {}

    // Throws std::runtime_error when it can serve nobody: an option is wrong, NCCL is absent.
    void run(const std::atomic<bool>& stop);

  private:
    // As long as this scheduler lives; says why it ended.
    std::string serve(FanOut& group, client::RingRelay& ring, const std::atomic<bool>& stop);

    FanOutOptions group_;
    std::string directory_;
    std::string instance_;
};

}  // namespace croupier::fan_out

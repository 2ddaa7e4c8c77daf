// Whether the daemon is alive, by the lock that it holds. Limits how often the kernel is asked.
#pragma once

#include <chrono>

#include "shm/segment.h"

namespace croupier::client {

class DaemonWatch {
  public:
    // A daemon that was alive within the last 10 ms counts as alive.
    bool alive(const shm::Segment& segment);

  private:
    std::chrono::steady_clock::time_point seen_alive_;
};

}  // namespace croupier::client

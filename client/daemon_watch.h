// Whether the daemon lives, by its lock: asked of the kernel no more often than it matters.
#pragma once

#include <chrono>

#include "shm/segment.h"

namespace croupier::client {

class DaemonWatch {
  public:
    // What a look within the last 10 ms found alive counts as alive.
    bool alive(const shm::Segment& segment);

  private:
    std::chrono::steady_clock::time_point seen_alive_;
};

}  // namespace croupier::client

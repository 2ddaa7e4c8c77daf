// Which hot set each session's new sequences are given: the configured one, or what the session's own draws
// have shown to be best.
#pragma once

#include <cstdint>
#include <map>

#include "config/config.h"
#include "hot_sets/controller.h"
#include "shm/segment.h"

namespace croupier::daemon {

class HotSets {
  public:
    explicit HotSets(const config::HotSet& settings) : settings_(settings) {}

    // For sessions that are open as well: their next sequences are given what is configured now.
    void configure(const config::HotSet& settings);
    // A new session's first sequences are given the configured one.
    void begin(const shm::Segment& segment);
    void housekeep(const shm::Segment& segment);
    void forget(std::uint64_t session_id) { controllers_.erase(session_id); }

  private:
    hot_sets::HotController& controller_of(const shm::Segment& segment);

    config::HotSet settings_;
    std::map<std::uint64_t, hot_sets::HotController> controllers_;
};

}  // namespace croupier::daemon

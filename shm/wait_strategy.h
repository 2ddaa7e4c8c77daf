// How a process waits for work: an object, configured once, told after each look how much it found.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace croupier::shm {

enum class WaitMode : std::uint32_t { spin = 0, adaptive = 1, sleep = 2 };

struct WaitSettings {
    WaitMode mode = WaitMode::adaptive;
    std::chrono::microseconds spin{20};        // adaptive: how long to look before the first sleep
    std::chrono::microseconds max_sleep{200};  // while work is expected that cannot ring (a GPU's stores)
};

class WaitStrategy {
  public:
    explicit WaitStrategy(WaitSettings settings) : settings_(settings) {}

    void configure(WaitSettings settings) { settings_ = settings; }
    const WaitSettings& settings() const { return settings_; }

    // Called after each look. `found` > 0 starts the patience anew; `soon`: work is about to come, and an
    // adaptive wait that spins at all is awake for it. `sleep` is called, with the longest time it may take,
    // when the patience is over and the mode allows to sleep. `others`: what comes is for others to do first,
    // who share the core and its caches with whoever looks.
    template <typename Sleep>
    void idle(std::size_t found, Sleep&& sleep, bool soon = false, bool others = false) {
        if (found > 0) {
            idle_since_.reset();
            return;
        }
        if (settings_.mode == WaitMode::spin) return pause(others);
        if (settings_.mode == WaitMode::adaptive &&
            ((soon && settings_.spin.count() > 0) || within_patience()))
            return pause(others);
        sleep(std::chrono::nanoseconds(settings_.max_sleep));
    }

  private:
    static void pause(bool long_one);
    bool within_patience();

    WaitSettings settings_;
    std::optional<std::chrono::steady_clock::time_point> idle_since_;
};

}  // namespace croupier::shm

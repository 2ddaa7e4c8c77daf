// How often a writer's watcher looks for logits while the model runs. A look costs six microseconds, most of
// them for its sleep: beside a forward pass of 10 ms the looks cost a hundredth of a core.
#pragma once

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "shm/logits_forecast.h"

namespace croupier::gpu_writer {

// The kernel's default slack of 50 us would more than double each sleep. A name has 15 characters at most.
inline void begin_punctual_thread(const char* name) {
    ::prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
    ::prctl(PR_SET_NAME, name, 0UL, 0UL, 0UL);
}

constexpr std::chrono::microseconds kBetweenLooks{25};
// Of a session's first steps nothing is known yet: they are found this share of their time late.
constexpr std::chrono::microseconds kBetweenFirstLooks{50};
constexpr int kShareOfFirst = 16;
constexpr std::chrono::microseconds kLongestSleep{1000};
// More from one step to the next is an engine that idled.
constexpr std::uint64_t kLongestStepNs = 10'000'000'000;

// The nearer the time at which a step came before, the more often: one that comes by so much earlier or later
// is found that share of it late.
constexpr std::uint64_t kShareOfEarly = 2;
constexpr std::uint64_t kShareOfLate = 4;

// `since_begun`: the oldest step whose logits are awaited.
inline std::chrono::nanoseconds until_look_for_logits(const shm::LogitsForecast& forecast,
                                                      std::uint64_t now_ns,
                                                      std::chrono::nanoseconds since_begun) {
    const auto [until, since] = forecast.around(now_ns);
    if (until == shm::LogitsForecast::kNone && since == shm::LogitsForecast::kNone) {
        return std::clamp<std::chrono::nanoseconds>(since_begun / kShareOfFirst, kBetweenFirstLooks,
                                                    kLongestSleep);
    }
    const std::chrono::nanoseconds sleep(std::min(until / kShareOfEarly, since / kShareOfLate));
    return std::clamp<std::chrono::nanoseconds>(sleep, kBetweenLooks, kLongestSleep);
}

}  // namespace croupier::gpu_writer

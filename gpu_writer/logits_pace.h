// How often a writer's threads look for logits while the model runs. A look costs two microseconds: beside a
// forward pass of 10 ms they cost no more than a hundredth of a core.
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
// Of a session's first steps nothing is known yet.
constexpr std::chrono::microseconds kBetweenFirstLooks{50};
// A step may come before its forecast.
constexpr std::chrono::microseconds kLongestSleep{500};
// A step that is late already is found this share of its lateness later.
constexpr std::uint64_t kShareOfLateness = 8;

inline std::chrono::nanoseconds until_look_for_logits(const shm::LogitsForecast& forecast,
                                                      std::uint64_t now_ns) {
    if (forecast.due(now_ns)) return kBetweenLooks;
    const std::uint64_t left = forecast.until_due(now_ns);
    const std::uint64_t late = forecast.late_by(now_ns);
    if (left == 0 && late == 0) return kBetweenFirstLooks;
    const std::chrono::nanoseconds sleep(left != 0 ? left : late / kShareOfLateness);
    return std::clamp<std::chrono::nanoseconds>(sleep, kBetweenLooks, kLongestSleep);
}

}  // namespace croupier::gpu_writer

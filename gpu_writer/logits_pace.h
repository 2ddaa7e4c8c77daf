// How often a writer's threads look for logits while the model runs. A look costs two microseconds: beside a
// forward pass of 10 ms they cost no more than a hundredth of a core.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "shm/logits_forecast.h"

namespace croupier::gpu_writer {

constexpr std::chrono::microseconds kBetweenLooks{20};
// A step may come before its forecast, or without one.
constexpr std::chrono::microseconds kLongestSleep{400};

inline std::chrono::nanoseconds until_look_for_logits(const shm::LogitsForecast& forecast,
                                                      std::uint64_t now_ns) {
    if (forecast.due(now_ns)) return kBetweenLooks;
    const std::chrono::nanoseconds left(forecast.until_due(now_ns));
    // 0: nothing is known, or the step is late.
    if (left.count() == 0) return kLongestSleep;
    return std::clamp<std::chrono::nanoseconds>(left, kBetweenLooks, kLongestSleep);
}

}  // namespace croupier::gpu_writer

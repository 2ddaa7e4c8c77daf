// A step that a rank's writer has begun, as its watcher knows it.
#pragma once

#include <chrono>
#include <cstdint>

#include "gpu_writer/begun_steps.h"

namespace croupier::gpu_writer {

struct WatchedStep {
    BegunStep begun;
    // Counts what the writer has watched, from 1 on: a step that is begun again has another one.
    std::uint64_t opening = 0;
    std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
};

}  // namespace croupier::gpu_writer

// How fast the cores are for a few milliseconds: one that is slower than its neighbours, or is not had.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace croupier::tools::doctor {

// What a thread did on a core while some time passed.
struct SpeedWindow {
    double turns_per_us = 0;  // of the processor time that it had
    double share = 0;         // of the time that passed
};

struct CoreSpeed {
    std::uint32_t core = 0;
    double turns_per_us = 0;  // while nobody else had it; 0: others always did
    double share = 0;         // of the time that passed, at best
};

struct CoreSpeeds {
    std::vector<CoreSpeed> cores;
    bool in_time = true;  // false: they were not all had before the deadline, and none is told
};

CoreSpeed speed_of(std::uint32_t core, const std::vector<SpeedWindow>& windows);

using MeasureCore = std::function<std::optional<CoreSpeed>(std::uint32_t core)>;

// Nothing where this process may not run on it. Binds the thread that calls it.
std::optional<CoreSpeed> measure_core(std::uint32_t core);

// Of at most some dozens of them, spread over all. A core that this process may not run on is left out.
CoreSpeeds measure_cores(const std::vector<std::uint32_t>& cores, std::chrono::milliseconds patience,
                         const MeasureCore& measure = measure_core);

}  // namespace croupier::tools::doctor

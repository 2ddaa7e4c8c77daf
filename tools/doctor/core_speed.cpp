#include "tools/doctor/core_speed.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <optional>
#include <thread>

namespace croupier::tools::doctor {
namespace {

constexpr std::size_t kMostCores = 32;
constexpr std::uint64_t kWindowNs = 1'500'000;
constexpr int kWindows = 3;  // a core that wakes up is slow at first: the best counts
constexpr std::uint64_t kTurnsAtOnce = 2000;

std::uint64_t now_ns(clockid_t clock) {
    timespec time{};
    ::clock_gettime(clock, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U +
           static_cast<std::uint64_t>(time.tv_nsec);
}

// A chain of dependent multiplications: nothing but the core's clock changes how long it takes.
std::uint64_t turn(std::uint64_t value) {
    for (std::uint64_t i = 0; i < kTurnsAtOnce; ++i)
        value = value * 6364136223846793005U + 1442695040888963407U;
    return value;
}

CoreSpeed window(std::uint32_t core) {
    const std::uint64_t begin = now_ns(CLOCK_MONOTONIC);
    const std::uint64_t used_before = now_ns(CLOCK_THREAD_CPUTIME_ID);
    std::uint64_t value = begin;
    std::uint64_t turns = 0;
    std::uint64_t end = begin;
    while ((end = now_ns(CLOCK_MONOTONIC)) - begin < kWindowNs) {
        value = turn(value);
        turns += kTurnsAtOnce;
    }
    const std::uint64_t used = std::max<std::uint64_t>(1, now_ns(CLOCK_THREAD_CPUTIME_ID) - used_before);
    // The compiler may not leave the chain away.
    const double kept = value == 0 ? 1.0 : 0.0;
    return {core, (static_cast<double>(turns) + kept) * 1e3 / static_cast<double>(used),
            static_cast<double>(used) / static_cast<double>(end - begin)};
}

std::optional<CoreSpeed> measure(std::uint32_t core) {
    if (core >= CPU_SETSIZE) return std::nullopt;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    if (::pthread_setaffinity_np(::pthread_self(), sizeof(set), &set) != 0) return std::nullopt;
    CoreSpeed best;
    for (int i = 0; i < kWindows; ++i) {
        const CoreSpeed seen = window(core);
        if (seen.turns_per_us > best.turns_per_us) best.turns_per_us = seen.turns_per_us;
        best.share = std::max(best.share, seen.share);
    }
    best.core = core;
    return best;
}

}  // namespace

std::vector<CoreSpeed> measure_cores(const std::vector<std::uint32_t>& cores) {
    std::vector<CoreSpeed> speeds;
    const std::size_t stride = (cores.size() + kMostCores - 1) / kMostCores;
    // One after the other: neighbours on one core would halve each other. A thread of its own: its binding
    // ends with it.
    std::jthread([&] {
        for (std::size_t i = 0; i < cores.size(); i += std::max<std::size_t>(1, stride)) {
            if (const auto speed = measure(cores[i])) speeds.push_back(*speed);
        }
    }).join();
    return speeds;
}

}  // namespace croupier::tools::doctor

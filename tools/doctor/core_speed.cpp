#include "tools/doctor/core_speed.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <future>
#include <thread>
#include <utility>

namespace croupier::tools::doctor {
namespace {

constexpr std::size_t kMostCores = 32;
constexpr double kAlone = 0.9;  // a window in which the thread had the core for at least so much of the time
constexpr std::uint64_t kWindowNs = 1'500'000;
constexpr std::size_t kWindows = 3;  // a core that wakes up is slow at first: the best counts
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

SpeedWindow window() {
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
    return {(static_cast<double>(turns) + kept) * 1e3 / static_cast<double>(used),
            static_cast<double>(used) / static_cast<double>(end - begin)};
}

// Of many, as many as are measured, with the same distance between them.
std::vector<std::uint32_t> spread(const std::vector<std::uint32_t>& cores) {
    const std::size_t stride = std::max<std::size_t>(1, (cores.size() + kMostCores - 1) / kMostCores);
    std::vector<std::uint32_t> chosen;
    for (std::size_t i = 0; i < cores.size(); i += stride) chosen.push_back(cores[i]);
    return chosen;
}

}  // namespace

CoreSpeed speed_of(std::uint32_t core, const std::vector<SpeedWindow>& windows) {
    CoreSpeed best{core, 0, 0};
    for (const SpeedWindow& seen : windows) {
        // Who takes turns with others finds the caches theirs, and in a virtual machine the core itself.
        if (seen.share >= kAlone) best.turns_per_us = std::max(best.turns_per_us, seen.turns_per_us);
        best.share = std::max(best.share, seen.share);
    }
    return best;
}

std::optional<CoreSpeed> measure_core(std::uint32_t core) {
    if (core >= CPU_SETSIZE) return std::nullopt;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    if (::pthread_setaffinity_np(::pthread_self(), sizeof(set), &set) != 0) return std::nullopt;
    std::vector<SpeedWindow> windows(kWindows);
    std::generate(windows.begin(), windows.end(), window);
    return speed_of(core, windows);
}

CoreSpeeds measure_cores(const std::vector<std::uint32_t>& cores, std::chrono::milliseconds patience,
                         const MeasureCore& measure) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    std::promise<std::vector<CoreSpeed>> promise;
    std::future<std::vector<CoreSpeed>> measured = promise.get_future();
    // One core after the other: neighbours on one core would halve each other. A thread of its own, which is
    // let go when it is late: on a core that others have it may wait for its next turn for seconds.
    std::thread([promise = std::move(promise), chosen = spread(cores), measure, deadline]() mutable {
        std::vector<CoreSpeed> speeds;
        for (const std::uint32_t core : chosen) {
            if (const auto speed = measure(core)) speeds.push_back(*speed);
            // The caller may wake up after the deadline, and would then see an answer that came too late.
            if (std::chrono::steady_clock::now() >= deadline) return;
        }
        promise.set_value(std::move(speeds));
    }).detach();
    if (measured.wait_until(deadline) != std::future_status::ready) return {{}, false};
    try {
        return {measured.get(), true};
    } catch (const std::future_error&) {
        return {{}, false};
    }
}

}  // namespace croupier::tools::doctor

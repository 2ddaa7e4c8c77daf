// Times work of microseconds on a machine with other load.
#pragma once

#include <chrono>
#include <ctime>
#include <optional>

namespace croupier::measurement {

inline double thread_us() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}

// The thread's CPU time: of work that is too long to be left alone.
template <typename Work>
double running_us(Work work) {
    const double begin = thread_us();
    work();
    return thread_us() - begin;
}

// Returns the wall-clock time, or nothing if it exceeds the thread's CPU time so much that the thread was
// interrupted.
template <typename Work>
std::optional<double> uninterrupted_us(Work work) {
    constexpr double kInterruptedUs = 20.0;
    const double thread_begin = thread_us();
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    const double running = thread_us() - thread_begin;
    if (took.count() - running > kInterruptedUs) return std::nullopt;
    return took.count();
}

}  // namespace croupier::measurement

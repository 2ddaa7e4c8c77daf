// CLOCK_MONOTONIC in nanoseconds: the one clock that all processes of a host agree on.
#pragma once

#include <cstdint>
#include <ctime>

namespace croupier::shm {

inline std::uint64_t monotonic_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000ULL +
           static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace croupier::shm

// What samplers sleep on. Each session's segment has one, which its client and its writers ring; the plane
// has one, which the supervisor rings.
#pragma once

#include <atomic>
#include <cstdint>

namespace croupier::proto {

constexpr std::uint32_t kMaxSamplers = 256;

struct Bell {
    alignas(64) std::atomic<std::uint32_t> rung;
    // If it is not 0, the next sampler that wakes sets it to 0 and wakes the others.
    std::atomic<std::uint32_t> passed_on;
    // A bit for each sampler, not a count: the successor of a sampler that was killed in its sleep clears the
    // bit, where a count would stay too high. Until then a ring makes one system call that wakes nobody.
    alignas(64) std::atomic<std::uint64_t> sleepers[kMaxSamplers / 64];
};
static_assert(sizeof(Bell) == 128);

}  // namespace croupier::proto

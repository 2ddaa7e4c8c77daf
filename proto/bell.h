// The one word on which idle samplers of a daemon sleep: shared by every session's client and writers.
#pragma once

#include <atomic>
#include <cstdint>

namespace croupier::proto {

constexpr std::uint64_t kBellMagic = 0x3130454C4C454243ULL;
constexpr std::uint32_t kBellVersion = 1;
constexpr std::uint32_t kMaxSamplers = 256;

struct BellPage {
    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t bytes;
    alignas(64) std::atomic<std::uint32_t> rung;
    // A bit a sampler, not a count: a sampler that is killed in its sleep leaves a bit that its
    // successor or the supervisor clears, where a count would stay too high for ever.
    alignas(64) std::atomic<std::uint64_t> sleepers[kMaxSamplers / 64];
};
static_assert(sizeof(BellPage) <= 4096);

}  // namespace croupier::proto

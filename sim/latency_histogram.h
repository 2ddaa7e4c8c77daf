// A histogram of latencies in shared memory. Any process may add latencies or read percentiles at any time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace croupier::sim {

// 64 buckets per octave: a percentile is at most 1.6 % too high; the maximum is exact.
class LatencyHistogram {
  public:
    void add(std::uint64_t nanoseconds);
    std::uint64_t count() const;
    std::uint64_t max_ns() const { return max_ns_.load(std::memory_order_relaxed); }
    // The latency that a share of all latencies do not exceed; 0 if there are none.
    std::uint64_t percentile_ns(double share) const;

  private:
    static constexpr std::uint32_t kSubBits = 6;
    static constexpr std::uint32_t kBuckets = (64 - kSubBits) << kSubBits;
    static std::uint32_t bucket_of(std::uint64_t nanoseconds);
    static std::uint64_t upper_of(std::uint32_t bucket);

    std::array<std::atomic<std::uint64_t>, kBuckets + (1U << kSubBits)> buckets_{};
    std::atomic<std::uint64_t> max_ns_{0};
};

}  // namespace croupier::sim

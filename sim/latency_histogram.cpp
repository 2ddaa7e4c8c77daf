#include "sim/latency_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace croupier::sim {

std::uint32_t LatencyHistogram::bucket_of(std::uint64_t nanoseconds) {
    constexpr std::uint64_t exact = 1U << kSubBits;
    if (nanoseconds < exact) return static_cast<std::uint32_t>(nanoseconds);
    const auto octave = static_cast<std::uint32_t>(std::bit_width(nanoseconds)) - 1 - kSubBits;
    const auto within = static_cast<std::uint32_t>(nanoseconds >> octave) - (1U << kSubBits);
    return ((octave + 1) << kSubBits) + within;
}

std::uint64_t LatencyHistogram::upper_of(std::uint32_t bucket) {
    constexpr std::uint32_t exact = 1U << kSubBits;
    if (bucket < exact) return bucket;
    const std::uint32_t octave = (bucket >> kSubBits) - 1;
    const std::uint64_t lowest = std::uint64_t{(bucket & (exact - 1)) + exact} << octave;
    return lowest + ((std::uint64_t{1} << octave) - 1);
}

void LatencyHistogram::add(std::uint64_t nanoseconds) {
    buckets_[bucket_of(nanoseconds)].fetch_add(1, std::memory_order_relaxed);
    std::uint64_t most = max_ns();
    while (most < nanoseconds &&
           !max_ns_.compare_exchange_weak(most, nanoseconds, std::memory_order_relaxed)) {
    }
}

std::uint64_t LatencyHistogram::count() const {
    std::uint64_t sum = 0;
    for (const auto& bucket : buckets_) sum += bucket.load(std::memory_order_relaxed);
    return sum;
}

std::uint64_t LatencyHistogram::percentile_ns(double share) const {
    const std::uint64_t all = count();
    if (all == 0) return 0;
    const auto wanted =
        std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(all))));
    std::uint64_t seen = 0;
    for (std::uint32_t bucket = 0; bucket < buckets_.size(); ++bucket) {
        seen += buckets_[bucket].load(std::memory_order_relaxed);
        if (seen >= wanted) return std::min(upper_of(bucket), max_ns());
    }
    return max_ns();
}

}  // namespace croupier::sim

// Where a sampler's time goes, added up in its entry of the plane.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "proto/plane.h"

namespace croupier::daemon {

// Of a LatencyHistogram.
inline std::size_t latency_bucket(std::uint64_t ns) {
    return std::min<std::size_t>(std::bit_width(ns / 250), proto::kLatencyBuckets - 1);
}

inline void record_stage(proto::SamplerEntry& entry, proto::Stage stage, std::uint64_t ns) {
    auto& histogram = entry.stages[static_cast<std::size_t>(stage)];
    histogram.buckets[latency_bucket(ns)].fetch_add(1, std::memory_order_relaxed);
    histogram.sum_ns.fetch_add(ns, std::memory_order_relaxed);
}

}  // namespace croupier::daemon

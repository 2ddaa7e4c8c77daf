// What short runs of `croupier sim` showed of steps with full batches.
#pragma once

#include <array>
#include <cstdint>

#include "proto/plane.h"
#include "tools/plan/setting.h"

namespace croupier::tools {

// What a column takes its sampler once the logits are there: in the plane's buckets, of which bucket b > 0
// holds what took 0.25 * 2^(b - 1) us and more, up to twice that.
struct ColumnTimes {
    double mean_us = 0.0;
    std::array<std::uint64_t, proto::kLatencyBuckets> buckets{};

    // The mean of the cheapest nineteen in twenty, by the buckets' middles: a few columns that were
    // interrupted can make most of the mean of all.
    double usual_us() const;
};

struct MeasuredStep {
    Setting setting;
    std::uint32_t samplers = 1;
    std::uint32_t runs = 1;
    std::uint64_t steps = 0;  // with full batches, of all runs
    double p50_us = 0.0;      // logits complete to the last commit; the mean of the middle runs' medians
    double p99_us = 0.0;
    ColumnTimes columns;
    std::uint64_t sampler_bytes = 0;  // that the largest sampler has to itself
    std::uint64_t supervisor_bytes = 0;
};

}  // namespace croupier::tools

// What one short run of `croupier sim` showed of steps with full batches.
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
    // Where in its bucket a column really lies: 1 is the middle. Found by the steps' times, not by the mean:
    // a few columns that were interrupted can make most of that.
    double factor = 1.0;

    // The mean of the cheapest nineteen in twenty.
    double usual_us() const;
};

struct MeasuredStep {
    Setting setting;
    std::uint32_t samplers = 1;
    std::uint64_t steps = 0;  // with full batches
    double p50_us = 0.0;      // logits complete to the last commit
    double p99_us = 0.0;
    ColumnTimes columns;
    std::uint64_t sampler_bytes = 0;  // that the largest sampler has to itself
    std::uint64_t supervisor_bytes = 0;
};

}  // namespace croupier::tools

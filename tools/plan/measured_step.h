// Measurements of steps with full batches, from short runs of `croupier sim`.
#pragma once

#include <array>
#include <cstdint>

#include "proto/plane.h"
#include "tools/plan/setting.h"

namespace croupier::tools {

// How long a sampler takes for a column once its logits are complete. Bucket b > 0 counts times from 0.25 *
// 2^(b - 1) us to twice that, as in the plane.
struct ColumnTimes {
    double mean_us = 0.0;
    std::array<std::uint64_t, proto::kLatencyBuckets> buckets{};

    // The mean of the fastest 95 %, by the centres of the buckets. The plain mean may be dominated by a few
    // interrupted columns.
    double usual_us() const;
};

struct MeasuredStep {
    Setting setting;
    std::uint32_t samplers = 1;
    std::uint32_t runs = 1;
    std::uint64_t steps = 0;  // with full batches, over all runs
    double p50_us = 0.0;      // from complete logits to the last commit; the mean of the middle runs' medians
    double p99_us = 0.0;
    ColumnTimes columns;
    std::uint64_t sampler_bytes = 0;  // private memory of the largest sampler
    std::uint64_t supervisor_bytes = 0;
};

}  // namespace croupier::tools

// What the run's own daemon says of itself while it still runs: what columns took its samplers, and how much
// memory its processes have to themselves.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "proto/plane.h"

namespace croupier::sim {

struct DaemonView {
    std::uint32_t samplers = 0;
    // Decisions of one column each, of all samplers; buckets as the plane has them.
    std::uint64_t columns = 0;
    double column_mean_us = 0.0;
    std::array<std::uint64_t, proto::kLatencyBuckets> column_buckets{};
    std::uint64_t supervisor_bytes = 0;
    std::uint64_t sampler_bytes = 0;  // of the largest one
};

// All 0 where the daemon cannot be seen.
DaemonView view_daemon(const std::string& shm_dir, const std::string& instance);

}  // namespace croupier::sim

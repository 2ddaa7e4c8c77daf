// Statistics of the run's own daemon, read before it ends: times of columns, and private memory of its
// processes.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "proto/plane.h"

namespace croupier::sim {

struct DaemonView {
    std::uint32_t samplers = 0;
    // Column decisions of all samplers; the buckets are those of the plane.
    std::uint64_t columns = 0;
    double column_mean_us = 0.0;
    std::array<std::uint64_t, proto::kLatencyBuckets> column_buckets{};
    std::uint64_t supervisor_bytes = 0;
    std::uint64_t sampler_bytes = 0;  // of the largest one
};

// All 0 if the daemon cannot be observed.
DaemonView view_daemon(const std::string& shm_dir, const std::string& instance);

}  // namespace croupier::sim

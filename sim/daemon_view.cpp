#include "sim/daemon_view.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "shm/snapshot.h"

namespace croupier::sim {
namespace {

// Private memory only: segments are shared.
std::uint64_t private_bytes(std::int32_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/smaps_rollup");
    std::uint64_t kilobytes = 0;
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::string name;
        std::uint64_t value = 0;
        if (words >> name >> value && name.starts_with("Private_")) kilobytes += value;
    }
    return kilobytes * 1024;
}

}  // namespace

DaemonView view_daemon(const std::string& shm_dir, const std::string& instance) {
    DaemonView view;
    const auto observed = shm::observe(shm_dir, instance);
    if (!observed) return view;
    const shm::Snapshot& snapshot = observed.value();
    view.samplers = static_cast<std::uint32_t>(snapshot.samplers.size());
    view.supervisor_bytes = private_bytes(snapshot.daemon_pid);
    std::uint64_t sum_ns = 0;
    for (const shm::SamplerSnapshot& sampler : snapshot.samplers) {
        const auto& decide = sampler.stages[static_cast<std::size_t>(proto::Stage::decide)];
        for (std::size_t bucket = 0; bucket < decide.buckets.size(); ++bucket) {
            view.column_buckets[bucket] += decide.buckets[bucket];
            view.columns += decide.buckets[bucket];
        }
        sum_ns += decide.sum_ns;
        view.sampler_bytes = std::max(view.sampler_bytes, private_bytes(sampler.pid));
    }
    if (view.columns > 0)
        view.column_mean_us = static_cast<double>(sum_ns) * 1e-3 / static_cast<double>(view.columns);
    return view;
}

}  // namespace croupier::sim

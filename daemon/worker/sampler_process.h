// The life of a sampler process: spawned by the supervisor, pinned, looking for columns until told to stop.
#pragma once

#include <cstdint>
#include <string>

namespace croupier::daemon {

struct SamplerOptions {
    std::uint32_t index = 0;
    std::string instance;
    std::uint32_t threads = 1;
    std::string cores;  // a list such as 2,3; empty: not pinned
    // Inherited: no file of the daemon's is opened by its name.
    int event_fd = -1;
    int plane_fd = -1;
    int segments_fd = -1;  // SegmentChannel's line
    std::int32_t supervisor_pid = 0;
};

int run_sampler(const SamplerOptions& options);

}  // namespace croupier::daemon

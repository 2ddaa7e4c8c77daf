// Chooses cores for samplers and binds processes to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host/host_view.h"

namespace croupier::host {

// The cores that the process may run on, ordered so that cores of a NUMA node are adjacent; empty if unknown.
std::vector<std::uint32_t> usable_cores(const HostView& host = {});
// For each sampler a list of cores ("2,3"), on one NUMA node if possible; of a core with two threads, the
// second one only where each other core of the node has a sampler. If `allowed` is empty, uses the cores of
// this process; the first is left to the supervisor and the engine's scheduler if there are enough. Cores
// repeat if there are too few.
std::vector<std::string> place_samplers(std::uint32_t samplers, std::uint32_t threads_each,
                                        const std::vector<std::uint32_t>& allowed, const HostView& host = {});
// The number of samplers for `count: 0`: one fewer than the cores, at least one. Cores are limited by the CPU
// quota of this process's control group.
std::uint32_t default_sampler_count(std::uint32_t threads_each, const HostView& host = {});
// For each list, the NUMA node of most of its cores; -1 if there are no cores or no known nodes.
std::vector<std::int32_t> nodes_of(const std::vector<std::string>& core_lists, const HostView& host = {});
// The same for all lists together.
std::int32_t node_of(const std::vector<std::string>& core_lists, const HostView& host = {});
// The number of cores in the process's affinity mask, online or not; nothing if unknown.
std::optional<std::size_t> allowed_cores(const HostView& host);
// Binds the calling process to a list of cores and its memory to their NUMA node.
bool bind_this_process(const std::string& cores);
std::int32_t first_core(const std::string& cores);

}  // namespace croupier::host

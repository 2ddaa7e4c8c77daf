// Which cores the samplers get, and the binding to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host/host_view.h"

namespace croupier::host {

// The cores that the process may run on, neighbours of one NUMA node where the machine allows it; empty where
// the machine tells none.
std::vector<std::uint32_t> usable_cores(const HostView& host = {});
// For each sampler the list of its cores ("2,3"), neighbours of one NUMA node where the machine allows it.
// `allowed` empty: every core this process may run on but the first, which is left to the supervisor and
// the engine's scheduler when there are enough. Cores repeat when there are fewer than asked for.
std::vector<std::string> place_samplers(std::uint32_t samplers, std::uint32_t threads_each,
                                        const std::vector<std::uint32_t>& allowed, const HostView& host = {});
// How many samplers `count: 0` means: one a core but one, at least one. Of the cores only as many count as
// the CPU quota of this process's control group lets run at once.
std::uint32_t default_sampler_count(std::uint32_t threads_each, const HostView& host = {});
// The NUMA node of most cores of each list; -1 where there are no cores or the machine tells no nodes.
std::vector<std::int32_t> nodes_of(const std::vector<std::string>& core_lists, const HostView& host = {});
// The same of all lists together.
std::int32_t node_of(const std::vector<std::string>& core_lists, const HostView& host = {});
// How many cores the process may run on, whether they are there or not; nothing where it is not told.
std::optional<std::size_t> allowed_cores(const HostView& host);
// Binds the calling process to a list of cores and its memory to their NUMA node.
bool bind_this_process(const std::string& cores);
std::int32_t first_core(const std::string& cores);

}  // namespace croupier::host

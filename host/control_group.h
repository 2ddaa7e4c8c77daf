// Limits from the control groups of a process, of version 1 or 2.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "host/host_view.h"

namespace croupier::host {

struct ControlGroup {
    bool unified = false;  // cgroup version 2
    std::filesystem::path folder;
};

// The visible groups of the process and their parents, for a controller such as "cpu".
std::vector<ControlGroup> control_groups(const HostView& host, const std::string& controller);

// The number of CPUs that the process may use at once, by the smallest quota of its groups; nothing if there
// is no limit. Unlike a cpuset, a quota hides no cores: the kernel stops the group when its share of a period
// is used up.
std::optional<double> cpu_quota(const HostView& host = {});
// How often the kernel stopped a group of the process because its quota was used up.
std::uint64_t quota_stops(const HostView& host);
// The memory limit of its groups in bytes; nothing if there is no limit.
std::optional<std::uint64_t> memory_limit(const HostView& host);

// The memory left in the group, or the parent, with the least memory left.
struct MemoryRoom {
    std::string group;  // its folder
    std::uint64_t limit = 0;
    std::uint64_t left = 0;  // includes reclaimable page cache and free swap
};
std::optional<MemoryRoom> memory_room(const HostView& host);

}  // namespace croupier::host

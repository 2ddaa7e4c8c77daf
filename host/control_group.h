// The control groups that a process is in, of either version.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "host/host_view.h"

namespace croupier::host {

struct ControlGroup {
    bool unified = false;  // of version 2
    std::filesystem::path folder;
};

// Those of the process and above it, as far as they can be seen, for a controller such as "cpu".
std::vector<ControlGroup> control_groups(const HostView& host, const std::string& controller);

// How many CPUs the process may use at once: the least quota of its group and of those above it; nothing: no
// limit. A quota is no cpuset: the scheduler shows all cores and stops the group when its share of a period
// is used up.
std::optional<double> cpu_quota(const HostView& host = {});
// How often the kernel has stopped a group of the process for its quota.
std::uint64_t quota_stops(const HostView& host);
// How many bytes of memory its groups allow; nothing: no limit.
std::optional<std::uint64_t> memory_limit(const HostView& host);

// What the tightest of those limits leaves: the group itself, or one above it.
struct MemoryRoom {
    std::string group;  // its folder
    std::uint64_t limit = 0;
    std::uint64_t left = 0;  // page cache that the kernel can drop counts as free, and swap that is left
};
std::optional<MemoryRoom> memory_room(const HostView& host);

}  // namespace croupier::host

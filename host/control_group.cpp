#include "host/control_group.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>

namespace croupier::host {
namespace {

namespace fs = std::filesystem;

// One line of /proc/<pid>/cgroup: "4:cpu,cpuacct:/path", or "0::/path" in the unified hierarchy.
struct Membership {
    bool unified = false;
    std::string path;
};

bool lists(const std::string& comma_separated, const std::string& word) {
    return ("," + comma_separated + ",").find("," + word + ",") != std::string::npos;
}

std::vector<Membership> memberships(const HostView& host, const std::string& controller) {
    std::vector<Membership> found;
    std::istringstream lines(host.read_of_process("cgroup").value_or(""));
    for (std::string line; std::getline(lines, line);) {
        const auto first = line.find(':');
        const auto second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        if (controllers.empty() || lists(controllers, controller)) {
            found.push_back({controllers.empty(), line.substr(second + 1)});
        }
    }
    return found;
}

// Where the hierarchy is mounted for this process; empty if nowhere.
std::string mount_point(const HostView& host, bool unified, const std::string& controller) {
    std::istringstream lines(host.read("/proc/self/mountinfo").value_or(""));
    for (std::string line; std::getline(lines, line);) {
        const auto dash = line.find(" - ");
        if (dash == std::string::npos) continue;
        std::istringstream before(line.substr(0, dash));
        std::istringstream after(line.substr(dash + 3));
        std::string skipped;
        std::string point;
        std::string type;
        std::string options;
        before >> skipped >> skipped >> skipped >> skipped >> point;
        after >> type >> skipped >> options;
        if (unified ? type == "cgroup2" : type == "cgroup" && lists(options, controller)) return point;
    }
    return "";
}

std::optional<std::uint64_t> number_in(const fs::path& file) {
    std::uint64_t number = 0;
    // "max" means no limit; it is not a number, so this returns nothing.
    if (!(std::ifstream(file) >> number)) return std::nullopt;
    return number;
}

std::optional<double> quota_at(const ControlGroup& group) {
    double quota = 0;
    double period = 0;
    if (group.unified) {
        if (!(std::ifstream(group.folder / "cpu.max") >> quota >> period)) return std::nullopt;
    } else {
        if (!(std::ifstream(group.folder / "cpu.cfs_quota_us") >> quota)) return std::nullopt;
        if (!(std::ifstream(group.folder / "cpu.cfs_period_us") >> period)) return std::nullopt;
    }
    if (quota <= 0 || period <= 0) return std::nullopt;
    return quota / period;
}

std::uint64_t stops_at(const ControlGroup& group) {
    std::ifstream file(group.folder / "cpu.stat");
    std::string name;
    for (std::uint64_t count = 0; file >> name >> count;) {
        if (name == "nr_throttled") return count;
    }
    return 0;
}

const char* file_of(const ControlGroup& group, const char* in_version_2, const char* in_version_1) {
    return group.unified ? in_version_2 : in_version_1;
}

std::optional<std::uint64_t> memory_limit_at(const ControlGroup& group) {
    // Without a limit, version 1 reports a number near the maximum.
    constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60U;
    const auto limit = number_in(group.folder / file_of(group, "memory.max", "memory.limit_in_bytes"));
    return limit && *limit < kNoLimit ? limit : std::nullopt;
}

// Memory of the group and its children that the kernel reclaims before it kills a process. Pages of tmpfs
// count as anonymous memory, so they are not included.
std::uint64_t droppable_at(const ControlGroup& group) {
    std::ifstream file(group.folder / "memory.stat");
    const std::string prefix = group.unified ? "" : "total_";
    std::uint64_t bytes = 0;
    std::string name;
    for (std::uint64_t count = 0; file >> name >> count;) {
        const bool counts = name == prefix + "active_file" || name == prefix + "inactive_file" ||
                            (group.unified && name == "slab_reclaimable");
        if (counts) bytes += count;
    }
    return bytes;
}

// By the group's limit; the host may have less free swap.
std::uint64_t swap_left_at(const ControlGroup& group) {
    if (group.unified) {
        std::string limit;
        const auto used = number_in(group.folder / "memory.swap.current");
        if (!used || !(std::ifstream(group.folder / "memory.swap.max") >> limit)) return 0;
        if (limit == "max") return UINT64_MAX;
        const auto bytes = number_in(group.folder / "memory.swap.max").value_or(0);
        return bytes - std::min(bytes, *used);
    }
    // Version 1 has one limit for memory and swap together.
    const auto both = number_in(group.folder / "memory.memsw.limit_in_bytes");
    const auto used = number_in(group.folder / "memory.memsw.usage_in_bytes");
    const auto memory = memory_limit_at(group);
    const auto memory_used = number_in(group.folder / "memory.usage_in_bytes");
    if (!both || !used || !memory || !memory_used) return 0;
    const std::uint64_t left = *both - std::min(*both, *used);
    const std::uint64_t memory_left = *memory - std::min(*memory, *memory_used);
    return left - std::min(left, memory_left);
}

std::uint64_t free_swap_of(const HostView& host) {
    const auto text = field_of(host.read("/proc/meminfo").value_or(""), "SwapFree").value_or("");
    std::uint64_t kibibytes = 0;
    std::from_chars(text.data(), text.data() + text.size(), kibibytes);
    return kibibytes * 1024;
}

template <typename Number>
std::optional<Number> lesser(std::optional<Number> a, std::optional<Number> b) {
    if (a && b) return std::min(*a, *b);
    return a ? a : b;
}

}  // namespace

std::vector<ControlGroup> control_groups(const HostView& host, const std::string& controller) {
    std::vector<ControlGroup> groups;
    for (const Membership& member : memberships(host, controller)) {
        const std::string root = mount_point(host, member.unified, controller);
        if (root.empty()) continue;
        // In a container the path may be that of the host and not exist; then the mounted root is the group.
        fs::path folder = host.path(root);
        groups.push_back({member.unified, folder});
        for (const fs::path& part : fs::path(member.path).relative_path()) {
            folder /= part;
            groups.push_back({member.unified, folder});
        }
    }
    return groups;
}

std::optional<double> cpu_quota(const HostView& host) {
    std::optional<double> least;
    for (const auto& group : control_groups(host, "cpu")) least = lesser(least, quota_at(group));
    return least;
}

std::uint64_t quota_stops(const HostView& host) {
    std::uint64_t most = 0;
    for (const auto& group : control_groups(host, "cpu")) {
        if (quota_at(group)) most = std::max(most, stops_at(group));
    }
    return most;
}

std::optional<std::uint64_t> memory_limit(const HostView& host) {
    std::optional<std::uint64_t> least;
    for (const auto& group : control_groups(host, "memory")) least = lesser(least, memory_limit_at(group));
    return least;
}

std::optional<MemoryRoom> memory_room(const HostView& host) {
    const std::uint64_t free_swap = free_swap_of(host);
    std::optional<MemoryRoom> tightest;
    for (const auto& group : control_groups(host, "memory")) {
        const auto limit = memory_limit_at(group);
        const auto used = number_in(group.folder / file_of(group, "memory.current", "memory.usage_in_bytes"));
        if (!limit || !used) continue;
        const std::uint64_t kept = *used - std::min(*used, droppable_at(group));
        const std::uint64_t left = *limit - std::min(*limit, kept) + std::min(free_swap, swap_left_at(group));
        if (!tightest || left < tightest->left) tightest = {group.folder.string(), *limit, left};
    }
    return tightest;
}

}  // namespace croupier::host

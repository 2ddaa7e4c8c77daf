#include "daemon/cpu_quota.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace croupier::daemon {
namespace {

namespace fs = std::filesystem;

// One line of /proc/self/cgroup: "4:cpu,cpuacct:/path", or "0::/path" of the unified hierarchy.
struct Membership {
    bool unified = false;
    std::string path;
};

bool lists(const std::string& comma_separated, const std::string& word) {
    return ("," + comma_separated + ",").find("," + word + ",") != std::string::npos;
}

std::vector<Membership> memberships() {
    std::vector<Membership> found;
    std::ifstream file("/proc/self/cgroup");
    for (std::string line; std::getline(file, line);) {
        const auto first = line.find(':');
        const auto second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        if (controllers.empty() || lists(controllers, "cpu")) {
            found.push_back({controllers.empty(), line.substr(second + 1)});
        }
    }
    return found;
}

// Where the hierarchy is mounted; empty: nowhere here.
std::string mount_point(bool unified) {
    std::ifstream file("/proc/self/mountinfo");
    for (std::string line; std::getline(file, line);) {
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
        if (unified ? type == "cgroup2" : type == "cgroup" && lists(options, "cpu")) return point;
    }
    return "";
}

std::optional<double> quota_at(const fs::path& group, bool unified) {
    double quota = 0;
    double period = 0;
    if (unified) {
        // "max 100000" where there is no limit: no number, so nothing is read.
        if (!(std::ifstream(group / "cpu.max") >> quota >> period)) return std::nullopt;
    } else {
        if (!(std::ifstream(group / "cpu.cfs_quota_us") >> quota)) return std::nullopt;
        if (!(std::ifstream(group / "cpu.cfs_period_us") >> period)) return std::nullopt;
    }
    if (quota <= 0 || period <= 0) return std::nullopt;
    return quota / period;
}

std::optional<double> lesser(std::optional<double> a, std::optional<double> b) {
    if (a && b) return std::min(*a, *b);
    return a ? a : b;
}

}  // namespace

std::optional<double> cpu_quota() {
    std::optional<double> least;
    for (const Membership& member : memberships()) {
        const fs::path root = mount_point(member.unified);
        if (root.empty()) continue;
        least = lesser(least, quota_at(root, member.unified));
        // Within a container the path may be the host's, and not be there: then the root is the group.
        fs::path group = root;
        for (const fs::path& part : fs::path(member.path).relative_path()) {
            group /= part;
            least = lesser(least, quota_at(group, member.unified));
        }
    }
    return least;
}

}  // namespace croupier::daemon

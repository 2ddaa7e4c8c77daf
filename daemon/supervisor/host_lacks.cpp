#include "daemon/supervisor/host_lacks.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "config/numbers.h"
#include "daemon/control/endpoint.h"
#include "event_log/event_log.h"
#include "host/mounts.h"
#include "host/placement.h"
#include "shm/file.h"

namespace croupier::daemon {
namespace {

bool is_in_own_groups(gid_t group) {
    if (::getegid() == group) return true;
    std::vector<gid_t> groups(static_cast<std::size_t>(std::max(0, ::getgroups(0, nullptr))));
    const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
    return std::find(groups.begin(), groups.begin() + std::max(0, count), group) != groups.end();
}

void check_group(const std::string& group, std::vector<Lack>& lacks) {
    if (group.empty()) return;
    const auto number = shm::group_id(group);
    if (!number) {
        lacks.push_back({"shm.group",
                         "this host has no group '" + group + "'; create it (groupadd " + group +
                             "), or name another, or leave it empty for the daemon's own",
                         true});
    } else if (::geteuid() != 0 && !is_in_own_groups(number.value())) {
        // The daemon may be another user's.
        lacks.push_back({"shm.group", "user " + std::to_string(::geteuid()) + " is no member of the group '" +
                                          group + "': a daemon of this user cannot give segments to it"});
    }
}

std::string list_of(const std::vector<std::uint32_t>& cores) {
    std::string text = config::core_list().print(cores);
    std::erase(text, '"');
    return text;
}

void check_cores(const std::vector<std::uint32_t>& wanted, std::vector<Lack>& lacks) {
    const std::vector<std::uint32_t> usable = [] {
        auto cores = host::usable_cores();
        std::sort(cores.begin(), cores.end());
        return cores;
    }();
    std::vector<std::uint32_t> missing;
    std::set_difference(wanted.begin(), wanted.end(), usable.begin(), usable.end(),
                        std::back_inserter(missing));
    if (missing.empty() || usable.empty()) return;
    const bool none = missing.size() == wanted.size();
    lacks.push_back({"samplers.cores", "samplers cannot run on " + list_of(missing) +
                                           ": croupierd may run on " + list_of(usable) +
                                           (none ? "; they will not be bound to cores" : "")});
}

// Who writes there admits clients; engines are members of the daemon's group, but for a user's own daemon.
void check_list_of_keys(const std::string& file, std::vector<Lack>& lacks) {
    struct stat status {};
    if (file.empty() || ::stat(file.c_str(), &status) != 0) return;
    // Root may check for a daemon of any user.
    const bool is_kept = status.st_uid == 0 || ::geteuid() == 0 || status.st_uid == ::geteuid();
    if (is_kept && (status.st_mode & (status.st_gid == 0 ? S_IWOTH : S_IWGRP | S_IWOTH)) == 0) return;
    lacks.push_back({"control.curve.authorized_keys_file", "other users may add keys to " + file +
                                                               ": let root or the daemon's user alone write "
                                                               "to it (chown, chmod go-w)"});
}

void check_keys(const config::Curve& curve, std::vector<Lack>& lacks) {
    check_list_of_keys(curve.authorized_keys_file, lacks);
    if (const auto keys = load_curve_keys(curve); !keys) {
        // The daemon may be another user's, who may read them.
        const bool forbidden = keys.error().code == shm::Errc::permission_denied;
        lacks.push_back({"control.curve", keys.error().message, !forbidden, forbidden});
    }
    struct stat status {};
    if (curve.secret_key_file.empty() || ::stat(curve.secret_key_file.c_str(), &status) != 0) return;
    // Kubernetes gives a secret to the daemon's group, systemd a credential to root's.
    const bool is_kept = status.st_gid == 0 || is_in_own_groups(status.st_gid);
    if ((status.st_mode & (is_kept ? S_IROTH : S_IRGRP | S_IROTH)) == 0) return;
    lacks.push_back({"control.curve.secret_key_file",
                     "other users may read the daemon's secret key in " + curve.secret_key_file +
                         ": make it the daemon's user's, with mode 0400 (chown, chmod)"});
}

// Sessions are refused, or slow; the daemon itself starts.
void check_memory(const config::Shm& shm, std::vector<Lack>& lacks) {
    if (shm.node && !std::filesystem::exists("/sys/devices/system/node/node" + std::to_string(*shm.node))) {
        lacks.push_back({"shm.node", "this host has no NUMA node " + std::to_string(*shm.node) +
                                         ": segments lie where the kernel puts them; set it to auto"});
    }
    const auto mount = host::mount_of({}, shm.dir);
    if (!mount) return;
    if (!mount->is_in_memory()) {
        lacks.push_back(
            {"shm.dir", shm.dir + " is on " + mount->point + " (" + mount->type +
                            "), which is not in memory: the kernel writes segments to a disk; set "
                            "it to a folder on a tmpfs"});
    }
    if (shm.hugepages == config::HugePages::require && !mount->has_huge_pages()) {
        lacks.push_back(
            {"shm.hugepages", mount->point + " has no huge pages (huge=" + mount->huge() +
                                  "): every session will be refused; mount -o remount,huge=advise " +
                                  mount->point + ", or set it to try"});
    }
}

}  // namespace

std::vector<Lack> lacks_of_host(const config::Config& config) {
    std::vector<Lack> lacks;
    check_group(config.shm.group, lacks);
    check_cores(config.samplers.cores, lacks);
    check_keys(config.control.curve, lacks);
    check_memory(config.shm, lacks);
    return lacks;
}

std::vector<config::Problem> problems_of_start(const config::LoadResult& loaded, Starter starter) {
    if (!loaded.config) return loaded.problems;
    std::vector<config::Problem> problems;
    for (const Lack& lack : lacks_of_host(*loaded.config)) {
        if (lack.prevents_start || (lack.prevents_this_user && starter == Starter::this_user))
            problems.push_back(loaded.problem(lack.key, lack.message));
    }
    return problems;
}

void log_lacks(const std::vector<Lack>& lacks) {
    for (const Lack& lack : lacks) {
        if (lack.prevents_start) continue;
        event_log::write(event_log::Event::host_lacks, {{"key", lack.key}}, "{}: {}", lack.key, lack.message);
    }
}

}  // namespace croupier::daemon

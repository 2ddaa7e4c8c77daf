#include "daemon/supervisor/host_lacks.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "config/numbers.h"
#include "daemon/control/endpoint.h"
#include "event_log/event_log.h"
#include "host/placement.h"
#include "shm/file.h"

namespace croupier::daemon {
namespace {

bool is_member(gid_t group) {
    if (::geteuid() == 0 || ::getegid() == group) return true;
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
    } else if (!is_member(number.value())) {
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

void check_keys(const config::Curve& curve, std::vector<Lack>& lacks) {
    const auto keys = load_curve_keys(curve);
    if (!keys) lacks.push_back({"control.curve", keys.error().message});
}

}  // namespace

std::vector<Lack> lacks_of_host(const config::Config& config) {
    std::vector<Lack> lacks;
    check_group(config.shm.group, lacks);
    check_cores(config.samplers.cores, lacks);
    check_keys(config.control.curve, lacks);
    return lacks;
}

void log_lacks(const std::vector<Lack>& lacks) {
    for (const Lack& lack : lacks) {
        if (lack.prevents_start) continue;
        event_log::write(event_log::Event::host_lacks, {{"key", lack.key}}, "{}: {}", lack.key, lack.message);
    }
}

}  // namespace croupier::daemon

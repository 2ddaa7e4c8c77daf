#include "tools/doctor/examined.h"

#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "host/placement.h"
#include "proto/segment_layout.h"

namespace croupier::tools::doctor {
namespace {

constexpr const char* kPackagedUser = "croupier";
constexpr std::string_view kIpc = "ipc://";

Account named_account(const std::string& user, const char* option) {
    if (auto found = account_of(user)) return *std::move(found);
    throw std::runtime_error("this host has no user '" + user + "' (" + option +
                             "); give a name that `getent passwd` lists, or a number");
}

// Of a daemon that this user may not ask, whose socket belongs to it.
std::optional<uid_t> owner_of_socket(const std::string& endpoint) {
    struct stat status {};
    if (!endpoint.starts_with(kIpc) || ::stat(endpoint.substr(kIpc.size()).c_str(), &status) != 0)
        return std::nullopt;
    return status.st_uid;
}

// The package's daemon has the host's folder; a daemon that somebody runs alone has one of its own.
Account daemon_account(const Request& request, const config::Config& config, const DaemonAnswer& daemon) {
    if (!request.user.empty()) return named_account(request.user, "--user");
    const auto uid = daemon.uid ? daemon.uid : owner_of_socket(config.control.endpoint);
    if (uid) {
        if (auto found = account_of(std::to_string(*uid))) return *std::move(found);
    }
    if (config.shm.dir == config::Shm().dir) {
        if (auto found = account_of(std::string(kPackagedUser))) return *std::move(found);
    }
    return own_account();
}

// Where neither a daemon serves this user nor the host has one, those of the daemon that this user would
// start.
proto::DefaultPaths paths_of_daemon(const Request& request) {
    proto::DefaultPaths serving = proto::serving_paths();
    std::error_code unknown;
    const bool host_has_one = !request.user.empty() || std::filesystem::exists(serving.run_dir, unknown) ||
                              std::filesystem::exists(config::kHostFile, unknown);
    if (!serving.is_host || host_has_one) return serving;
    // A folder that is there and not served from is another user's, or its daemon would be this user's.
    const proto::DefaultPaths own = proto::default_paths();
    return std::filesystem::exists(own.run_dir, unknown) ? serving : own;
}

void place(Examined& examined) {
    const auto& samplers = examined.config.samplers;
    examined.usable_cores = host::usable_cores(examined.host);
    const std::uint32_t count =
        samplers.count != 0 ? samplers.count
                            : host::default_sampler_count(samplers.threads_per_sampler, examined.host);
    examined.sampler_cores =
        host::place_samplers(count, samplers.threads_per_sampler, samplers.cores, examined.host);
    examined.sampler_nodes = host::nodes_of(examined.sampler_cores, examined.host);
    const auto& wanted = examined.config.shm.node;
    examined.segment_node =
        wanted ? static_cast<std::int32_t>(*wanted) : host::node_of(examined.sampler_cores, examined.host);
}

}  // namespace

Examined examine(const Request& request) {
    Examined examined;
    examined.request = request;
    examined.host.root = request.sysroot;
    for (const char* folder : {"/proc/self", "/sys/devices/system/cpu"}) {
        if (request.sysroot.empty() || std::filesystem::is_directory(request.sysroot + folder)) continue;
        throw std::runtime_error("--sysroot " + request.sysroot + " has no folder " + folder +
                                 "; it should hold copies of a host's /proc and /sys");
    }
    examined.paths = examined.host.is_real() ? paths_of_daemon(request) : proto::DefaultPaths();
    examined.loaded = config::load(request.config_file, examined.paths);
    examined.config = examined.loaded.config.value_or(config::default_config(examined.paths));
    if (!examined.host.is_real()) {
        // Of a copy of a host nothing else tells whose the daemon is.
        if (!request.user.empty()) examined.daemon_user = named_account(request.user, "--user");
        place(examined);
        return examined;
    }
    const std::chrono::milliseconds patience(request.patience_ms);
    // The longest wait first; its answer is needed last.
    auto python = std::async(std::launch::async, [&] { return ask_python(request.python, patience); });
    examined.daemon = ask_daemon(examined.config, patience / 2);
    if (examined.daemon.pid) {
        const std::string process = std::to_string(*examined.daemon.pid);
        if (examined.host.list("/proc/" + process).size() > 1) examined.host.process = process;
    }
    examined.daemon_user = daemon_account(request, examined.config, examined.daemon);
    examined.engine_user =
        request.engine_user.empty() ? own_account() : named_account(request.engine_user, "--engine-user");
    place(examined);
    examined.python = python.get();
    return examined;
}

std::uint64_t session_bytes(const Request& request) {
    proto::Geometry geometry;
    geometry.vocab = request.vocab;
    geometry.max_batch = request.batch;
    geometry.slots = 3;
    geometry.max_sequences = request.batch;
    geometry.max_length = 8192;
    geometry.has_summaries = 1;
    proto::fill_even_shards(geometry);
    return proto::layout_of(geometry).total_bytes;
}

}  // namespace croupier::tools::doctor

#include "daemon/supervisor/foundation.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "daemon/control/connection_limits.h"
#include "daemon/supervisor/instance_lock.h"
#include "daemon/supervisor/signals.h"
#include "event_log/event_log.h"
#include "host/placement.h"
#include "shm/capture_exchange.h"
#include "shm/file_identity.h"
#include "shm/random_number.h"
#include "shm/snapshot.h"

namespace croupier::daemon {
namespace {

using event_log::Event;

// How often deaths of clients and writers, back-offs and hung samplers are looked for.
constexpr std::chrono::milliseconds kHousekeepingPeriod{25};
constexpr int kMostRaces = 100;

// libzmq takes its peers' ids from rand(): without a seed they are the same at every start, and who claims
// the id of another gets what is meant for that one.
shm::Result<bool> seed_peer_ids() {
    const auto seed = shm::random_number();
    if (!seed) {
        return shm::fail(shm::Errc::system_error, "no random number for the ids of peers: getrandom failed");
    }
    std::srand(static_cast<unsigned int>(*seed));
    return true;
}

std::size_t open_files_limit() {
    rlimit limit{};
    return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

// The soft limit is low because of select(), which the daemon does not call.
void raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
    limit.rlim_cur = limit.rlim_max;
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        event_log::write(Event::open_files_limited, {{"limit", limit.rlim_cur}},
                         "cannot raise the limit of open files: {}", std::strerror(errno));
    }
}

std::uint32_t samplers_of(const config::Samplers& samplers) {
    const std::uint32_t count =
        samplers.count != 0 ? samplers.count : host::default_sampler_count(samplers.threads_per_sampler);
    return std::min(count, proto::kMaxSamplers);
}

std::size_t own_files_of(const config::Config& config) {
    return own_files(config.sessions.max, samplers_of(config.samplers));
}

shm::Result<bool> check_descriptor_limit(const config::Config& config) {
    const std::size_t needed = own_files_of(config) + kFewestConnections;
    if (open_files_limit() >= needed) return true;
    return shm::fail(shm::Errc::system_error,
                     "the limit of open files is " + std::to_string(open_files_limit()) +
                         ", and a daemon of " + std::to_string(config.sessions.max) +
                         " sessions (sessions.max) and " + std::to_string(samplers_of(config.samplers)) +
                         " samplers needs " + std::to_string(needed) +
                         ": raise the hard limit (ulimit -Hn, LimitNOFILE= in the unit)");
}

// A daemon that ends may remove the folder that was its own between the two.
shm::Result<shm::FileDescriptor> claim_directory(const std::string& path) {
    for (int again = 0; again < kMostRaces; ++again) {
        CROUPIER_TRY(shm::prepare_directory(path));
        auto locked = shm::lock_directory(path);
        if (!locked && locked.error().code == shm::Errc::not_found) continue;
        if (!locked) return locked.error();
        struct stat status {};
        if (::fstat(locked.value().get(), &status) == 0 && status.st_nlink > 0) return locked;
    }
    return shm::fail(shm::Errc::not_found, "shm.dir " + path + " is removed again and again");
}

// The host's is made beforehand, so that nobody else takes its name.
void remove_own_folder(const config::Config& config) {
    if (config.shm.dir == proto::own_paths().shm_dir) ::rmdir(config.shm.dir.c_str());
}

}  // namespace

void remove_own_files(const config::Config& config, const shm::Plane& plane) {
    const std::string path = shm::plane_path(config.shm.dir, config.instance);
    const auto ours = plane.open_again();
    // At a logout the folder is removed, and another daemon may have its own files there now.
    if (std::filesystem::exists(path) && ours && !shm::is_at(ours.value(), path)) return;
    ::unlink(path.c_str());
    shm::CaptureExchange::remove(config.shm.dir, config.instance);
    remove_own_folder(config);
}

void bound_connections(const config::Config& config) {
    limit_connections(
        connection_limits(open_files_limit(), own_files_of(config), config.control.connections_per_peer));
}

shm::Result<bool> acquire_resources(const config::Config& config, Foundation& made) {
    raise_descriptor_limit();
    CROUPIER_TRY(check_descriptor_limit(config));
    bound_connections(config);
    CROUPIER_TRY(seed_peer_ids());
    // One after the other: each needs what stands before it.
    CROUPIER_TRY_VALUE(lock, lock_instance(config.run_dir, config.instance));
    CROUPIER_TRY_VALUE(signals, open_signals());
    CROUPIER_TRY_VALUE(timer, open_timer(kHousekeepingPeriod));
    CROUPIER_TRY_VALUE(event, open_inherited_event());
    CROUPIER_TRY_VALUE(made_event, open_event());
    CROUPIER_TRY_VALUE(directory_lock, claim_directory(config.shm.dir));
    const shm::FileDescriptor alone = std::move(directory_lock);
    CROUPIER_TRY(await_predecessor(config.shm.dir, config.instance));
    CROUPIER_TRY_VALUE(keys, load_curve_keys(config.control.curve));
    // What a killed daemon left there is of users.
    shm::CaptureExchange::remove(config.shm.dir, config.instance);
    auto plane = shm::Plane::create(config.shm.dir, config.instance, samplers_of(config.samplers),
                                    config.samplers.threads_per_sampler);
    if (!plane) {
        remove_own_folder(config);
        return plane.error();
    }
    made.lock = std::move(lock);
    made.signals = std::move(signals);
    made.timer = std::move(timer);
    made.step_event = std::move(event);
    made.made_event = std::move(made_event);
    made.plane.emplace(std::move(plane).value());
    made.keys = std::move(keys);
    return true;
}

}  // namespace croupier::daemon

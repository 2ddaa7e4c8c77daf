#include "daemon/foundation.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "daemon/instance_lock.h"
#include "daemon/signals.h"
#include "shm/random_number.h"
#include "shm/snapshot.h"

namespace croupier::daemon {
namespace {

// How often deaths of clients and writers, back-offs and hung samplers are looked for.
constexpr std::chrono::milliseconds kHousekeepingPeriod{25};

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

// libzmq ends the process when it has no descriptor for a peer that connects. The soft limit is low for the
// sake of select(), which nobody here calls.
void raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
    limit.rlim_cur = limit.rlim_max;
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        spdlog::warn("the limit of open files stays: {}", std::strerror(errno));
    }
}

}  // namespace

void remove_own_files(const config::Config& config) {
    ::unlink(shm::plane_path(config.shm.dir, config.instance).c_str());
    // Clients that outlive their daemon ring the bell that they have mapped: it stays for the next start.
    if (!shm::segment_files(config.shm.dir, config.instance).empty()) return;
    ::unlink(shm::bell_path(config.shm.dir, config.instance).c_str());
}

shm::Result<bool> acquire_resources(const config::Config& config, Foundation& made) {
    raise_descriptor_limit();
    if (auto seeded = seed_peer_ids(); !seeded) return seeded;
    // One after the other: each needs what stands before it.
    auto lock = lock_instance(config.run_dir, config.instance);
    if (!lock) return lock.error();
    auto signals = open_signals();
    if (!signals) return signals.error();
    auto timer = open_timer(kHousekeepingPeriod);
    if (!timer) return timer.error();
    auto event = open_inherited_event();
    if (!event) return event.error();
    auto made_event = open_event();
    if (!made_event) return made_event.error();
    const shm::FileOwnership ownership{static_cast<mode_t>(config.shm.mode), config.shm.group};
    if (auto ready = shm::prepare_directory(config.shm.dir); !ready) return ready.error();
    const auto alone = shm::lock_directory(config.shm.dir);
    if (!alone) return alone.error();
    if (auto gone = await_predecessor(config.shm.dir, config.instance); !gone) return gone.error();
    auto keys = load_curve_keys(config.control.curve);
    if (!keys) return keys.error();
    auto bell = shm::Bell::create_or_adopt(config.shm.dir, config.instance, ownership);
    if (!bell) return bell.error();
    auto plane = shm::Plane::create(config.shm.dir, config.instance);
    if (!plane) {
        remove_own_files(config);
        return plane.error();
    }
    made.lock = std::move(lock).value();
    made.signals = std::move(signals).value();
    made.timer = std::move(timer).value();
    made.step_event = std::move(event).value();
    made.made_event = std::move(made_event).value();
    made.bell.emplace(std::move(bell).value());
    made.plane.emplace(std::move(plane).value());
    made.keys = std::move(keys).value();
    return true;
}

}  // namespace croupier::daemon

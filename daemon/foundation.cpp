#include "daemon/foundation.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "daemon/instance_lock.h"
#include "daemon/signals.h"
#include "event_log/event_log.h"
#include "host/placement.h"
#include "shm/random_number.h"
#include "shm/snapshot.h"

namespace croupier::daemon {
namespace {

using event_log::Event;

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
        event_log::write(Event::open_files_limited, {{"limit", limit.rlim_cur}},
                         "the limit of open files stays: {}", std::strerror(errno));
    }
}

std::uint32_t samplers_of(const config::Samplers& samplers) {
    const std::uint32_t count =
        samplers.count != 0 ? samplers.count : host::default_sampler_count(samplers.threads_per_sampler);
    return std::min(count, proto::kMaxSamplers);
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
    CROUPIER_TRY(seed_peer_ids());
    // One after the other: each needs what stands before it.
    CROUPIER_TRY_VALUE(lock, lock_instance(config.run_dir, config.instance));
    CROUPIER_TRY_VALUE(signals, open_signals());
    CROUPIER_TRY_VALUE(timer, open_timer(kHousekeepingPeriod));
    CROUPIER_TRY_VALUE(event, open_inherited_event());
    CROUPIER_TRY_VALUE(made_event, open_event());
    const shm::FileOwnership ownership{static_cast<mode_t>(config.shm.mode), config.shm.group};
    CROUPIER_TRY(shm::prepare_directory(config.shm.dir));
    CROUPIER_TRY_VALUE(directory_lock, shm::lock_directory(config.shm.dir));
    const shm::FileDescriptor alone = std::move(directory_lock);
    CROUPIER_TRY(await_predecessor(config.shm.dir, config.instance));
    CROUPIER_TRY_VALUE(keys, load_curve_keys(config.control.curve));
    CROUPIER_TRY_VALUE(bell, shm::Bell::create_or_adopt(config.shm.dir, config.instance, ownership));
    auto plane = shm::Plane::create(config.shm.dir, config.instance, samplers_of(config.samplers),
                                    config.samplers.threads_per_sampler);
    if (!plane) {
        remove_own_files(config);
        return plane.error();
    }
    made.lock = std::move(lock);
    made.signals = std::move(signals);
    made.timer = std::move(timer);
    made.step_event = std::move(event);
    made.made_event = std::move(made_event);
    made.bell.emplace(std::move(bell));
    made.plane.emplace(std::move(plane).value());
    made.keys = std::move(keys);
    return true;
}

}  // namespace croupier::daemon

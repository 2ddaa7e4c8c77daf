#include "daemon/supervisor.h"

#include <spdlog/spdlog.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <zmq.hpp>

#include "config/load.h"
#include "config/reload.h"
#include "daemon/control_server.h"
#include "daemon/curve_gate.h"
#include "daemon/decision_stream.h"
#include "daemon/endpoint.h"
#include "daemon/http_server.h"
#include "daemon/instance_lock.h"
#include "daemon/logging.h"
#include "daemon/sampler_pool.h"
#include "daemon/session_registry.h"
#include "daemon/signals.h"
#include "daemon/statistics_desk.h"
#include "daemon/successor.h"
#include "shm/clock.h"
#include "shm/snapshot.h"

namespace croupier::daemon {
namespace {

using Clock = std::chrono::steady_clock;

// How often deaths of clients and writers, back-offs and hung samplers are looked for.
constexpr std::chrono::milliseconds kTend{25};

// What is left to do after a drain: samplers end, and what was sent is read.
constexpr std::chrono::seconds kEndAfterDrain{10};

// libzmq takes its peers' ids from rand(): without a seed they are the same at every start, and who claims
// the id of another gets what is meant for that one.
shm::Result<bool> seed_peer_ids() {
    unsigned int seed = 0;
    if (::getrandom(&seed, sizeof(seed), 0) != sizeof(seed)) {
        return shm::fail(shm::Errc::system_error, "no random number for the ids of peers: getrandom failed");
    }
    std::srand(seed);
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

// What has to exist before the first request is answered, in the order in which it is made.
struct Foundation {
    shm::FileDescriptor lock;
    shm::FileDescriptor signals;
    shm::FileDescriptor timer;
    shm::FileDescriptor step_event;
    shm::FileDescriptor made_event;  // of what is made beside the loop
    std::optional<shm::Bell> bell;
    std::optional<shm::Plane> plane;
    CurveKeys keys;
    std::array<shm::FileDescriptor, 2> paths;  // of the sockets, ours alone
};

void remove_own_files(const config::Config& config) {
    ::unlink(shm::plane_path(config.shm.dir, config.instance).c_str());
    // Clients that outlive their daemon ring the bell that they have mapped: it stays for the next start.
    if (!shm::segment_files(config.shm.dir, config.instance).empty()) return;
    ::unlink(shm::bell_path(config.shm.dir, config.instance).c_str());
}

shm::Result<bool> lay_foundation(const config::Config& config, Foundation& made) {
    // One after the other: each needs what stands before it.
    auto lock = lock_instance(config.run_dir, config.instance);
    if (!lock) return lock.error();
    auto signals = open_signals();
    if (!signals) return signals.error();
    auto timer = open_timer(kTend);
    if (!timer) return timer.error();
    auto event = open_inherited_event();
    if (!event) return event.error();
    auto made_event = open_event();
    if (!made_event) return made_event.error();
    const shm::FileOwnership ownership{static_cast<mode_t>(config.shm.mode), config.shm.group};
    if (auto ready = shm::prepare_directory(config.shm.dir, ownership); !ready) return ready.error();
    const auto alone = begin_start(config.shm.dir);
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

class Supervisor {
  public:
    Supervisor(const config::Config& config, std::string config_path, Foundation& foundation)
        : config_(config),
          config_path_(std::move(config_path)),
          base_(foundation),
          registry_(config, *foundation.plane, *foundation.bell, foundation.made_event.get()),
          statistics_(config.shm.dir, config.instance, foundation.made_event.get()),
          pool_(config, *foundation.plane, *foundation.bell, foundation.step_event.get(),
                [this](std::uint32_t dead, const proto::PreparedColumn& at) {
                    registry_.reopen_claims(dead, at);
                }),
          control_(context_, config.control.max_message_bytes),
          decisions_(context_, config.decisions.high_water_mark) {}

    shm::Result<bool> open_doors() {
        if (!base_.keys.secret.empty()) gate_.emplace(context_, base_.keys.authorized);
        const auto& group = config_.shm.group;
        auto control = bind_endpoint(control_.socket(), config_.control.endpoint, config_.control.ipc_mode,
                                     group, base_.keys);
        if (!control) return control.error();
        auto decisions = bind_endpoint(decisions_.socket(), config_.decisions.endpoint,
                                       config_.control.ipc_mode, group, base_.keys);
        if (!decisions) return decisions.error();
        base_.paths = {std::move(control).value(), std::move(decisions).value()};
        if (config_.metrics.listen == "off") return true;
        auto server = HttpServer::start(config_.metrics.listen, config_.shm.dir, config_.instance, health_);
        if (!server) return server.error();
        http_ = std::move(server).value();
        return true;
    }

    void run() {
        const auto& wanted = config_.shm.node;
        registry_.place_on_node(wanted ? static_cast<std::int32_t>(*wanted) : pool_.node());
        registry_.adopt_survivors();
        pool_.start();
        uint64_t watchdog_us = 0;
        if (::sd_watchdog_enabled(0, &watchdog_us) > 0)
            watchdog_ = std::chrono::microseconds(watchdog_us / 2);
        while (!done_) turn();
        finish();
    }

  private:
    void turn() {
        std::array<zmq::pollitem_t, 6> items = {{{control_.socket().handle(), 0, ZMQ_POLLIN, 0},
                                                 {decisions_.socket().handle(), 0, ZMQ_POLLIN, 0},
                                                 {nullptr, base_.signals.get(), ZMQ_POLLIN, 0},
                                                 {nullptr, base_.step_event.get(), ZMQ_POLLIN, 0},
                                                 {nullptr, base_.timer.get(), ZMQ_POLLIN, 0},
                                                 {nullptr, base_.made_event.get(), ZMQ_POLLIN, 0}}};
        zmq::poll(items.data(), items.size(), std::chrono::milliseconds(-1));
        health_.last_turn_ns.store(shm::monotonic_ns(), std::memory_order_relaxed);
        // The dead first: what they had claimed is what everybody waits for.
        take_signals();
        clear(base_.step_event);
        clear(base_.made_event);
        const auto admitted = [this](const Peer& peer) { return admits(peer); };
        control_.serve({&registry_, &statistics_, admitted, config_.control.endpoint, config_.shm.dir,
                        config_.instance, config_.decisions.endpoint,
                        [this] { begin_drain("asked to over the control socket"); }});
        decisions_.serve(registry_, config_.decisions.endpoint, admitted);
        decisions_.send_completed(registry_);
        if ((items[4].revents & ZMQ_POLLIN) != 0) {
            clear(base_.timer);
            tend();
        }
    }

    bool admits(const Peer& peer) const {
        return !peer.identity.starts_with(kKeyOwner) ||
               (gate_ && gate_->knows(peer.identity.substr(kKeyOwner.size())));
    }

    // A stop before all others: the kernel gives the lowest number first, and a handover that came with a
    // stop would leave what is to go.
    void take_signals() {
        std::vector<int> seen = read_signals(base_.signals);
        std::stable_partition(seen.begin(), seen.end(), is_stop);
        for (const int signal : seen) on_signal(signal);
    }

    void on_signal(int signal) {
        switch (signal) {
            case SIGCHLD:
                pool_.reap();
                break;
            case SIGHUP:
                reload();
                break;
            case SIGUSR1:
                hand_over();
                break;
            case SIGTERM:
                begin_drain("SIGTERM");
                break;
            case SIGINT:
                begin_drain("SIGINT");
                break;
            default:
                break;
        }
    }

    void tend() {
        pool_.tend();
        registry_.tend();
        base_.bell->mend();
        announce_ready();
        if (watchdog_.count() != 0 && Clock::now() - last_watchdog_ >= watchdog_) {
            ::sd_notify(0, "WATCHDOG=1");
            last_watchdog_ = Clock::now();
        }
        if (!drain_deadline_) return;
        done_ = registry_.drained();
        if (done_ || Clock::now() < *drain_deadline_) return;
        registry_.name_undrained();
        done_ = true;
    }

    void announce_ready() {
        const bool ready = pool_.ready();
        if (ready && !announced_) {
            spdlog::info("ready: {} samplers, control at {}, decisions at {}, metrics at {}",
                         base_.plane->header().sampler_count, config_.control.endpoint,
                         config_.decisions.endpoint, config_.metrics.listen);
            ::sd_notify(0, "READY=1\nSTATUS=serving");
            announced_ = true;
        }
        health_.ready.store(ready, std::memory_order_relaxed);
    }

    void begin_drain(const char* why) {
        if (drain_deadline_) return;
        health_.draining.store(true, std::memory_order_relaxed);
        registry_.drain();
        // Said when it holds: who reads the line may rely on it.
        spdlog::info("draining ({}): steps in flight finish and are taken, {} sessions end", why,
                     registry_.count());
        const auto patience = std::chrono::milliseconds(config_.sessions.drain_timeout_ms);
        // The service manager's own limit does not know how long a drain may take.
        ::sd_notifyf(0, "STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC=%" PRId64,
                     std::chrono::microseconds(patience + kEndAfterDrain).count());
        drain_deadline_ = Clock::now() + patience;
    }

    // The sessions stay in shared memory for the daemon that is started next, if it can read them.
    void hand_over() {
        if (drain_deadline_ || done_) return;
        const std::string ours = layout_versions();
        const auto next = layout_versions_of(program_);
        if (!next || next.value() != ours) {
            spdlog::warn(
                "no handover (SIGUSR1): {}; this daemon speaks {}, so its sessions end here",
                next ? "the next daemon, " + program_ + ", speaks " + next.value() : next.error().message,
                ours);
            return begin_drain("SIGUSR1");
        }
        // It came while the next daemon was asked, and is read in the next turn.
        if (stop_is_pending()) return;
        health_.draining.store(true, std::memory_order_relaxed);
        ::sd_notify(0, "STOPPING=1\nSTATUS=handing over");
        handing_over_ = done_ = true;
    }

    void reload() {
        // systemd's Type=notify-reload is not in Debian 12: RELOADING and READY bracket the reload for newer
        // ones.
        if (announced_) ::sd_notify(0, "RELOADING=1");
        const auto loaded = config::load_file(config_path_);
        if (!loaded.config) {
            for (const auto& problem : loaded.problems) spdlog::error("{}", config::to_string(problem));
            spdlog::error("SIGHUP: the configuration stays as it is");
        } else {
            for (const auto& key : config::unreloadable_changes(config_, *loaded.config)) {
                spdlog::warn("SIGHUP: {} changes with a restart only", key);
            }
            config_ = config::reloaded(config_, *loaded.config);
            configure_log(config_.log);
            pool_.configure(config_.samplers);
            registry_.configure(config_);
            reload_keys();
            spdlog::info("SIGHUP: the reloadable part of {} is in force", config_path_);
        }
        if (announced_) ::sd_notify(0, "READY=1");
    }

    // The files may hold other keys now, though their names have not changed.
    void reload_keys() {
        if (!gate_) return;
        const auto keys = load_curve_keys(config_.control.curve);
        if (!keys) {
            spdlog::error("SIGHUP: the CURVE keys stay as they are: {}", keys.error().message);
            return;
        }
        if (keys.value().secret != base_.keys.secret) {
            spdlog::warn("SIGHUP: the daemon's own CURVE key changes with a restart only");
        }
        gate_->authorize(keys.value().authorized);
        decisions_.drop_unadmitted([this](const Peer& peer) { return admits(peer); });
        spdlog::info("SIGHUP: {} CURVE keys are authorized", keys.value().authorized.size());
    }

    void finish() {
        registry_.end_openings();
        if (handing_over_) {
            pool_.stop();
            // The next daemon sends again what was not taken.
            control_.socket().set(zmq::sockopt::linger, 0);
            decisions_.socket().set(zmq::sockopt::linger, 0);
            spdlog::info("handed over (SIGUSR1): {} sessions wait for the next daemon", registry_.count());
        } else {
            decisions_.send_completed(registry_);
            registry_.retire_all();
            pool_.stop();
            spdlog::info("stopped");
        }
        remove_own_files(config_);
    }

    config::Config config_;
    std::string config_path_;
    const std::string program_ = own_program();
    Foundation& base_;
    zmq::context_t context_;
    std::optional<CurveGate> gate_;
    SessionRegistry registry_;
    StatisticsDesk statistics_;
    SamplerPool pool_;
    ControlServer control_;
    DecisionStream decisions_;
    Health health_;
    std::unique_ptr<HttpServer> http_;
    std::optional<Clock::time_point> drain_deadline_;
    std::chrono::microseconds watchdog_{0};
    Clock::time_point last_watchdog_;
    bool announced_ = false;
    bool handing_over_ = false;
    bool done_ = false;
};

}  // namespace

int run_supervisor(const config::Config& config, const std::string& config_path) {
    shm::survive_lost_pages();
    raise_descriptor_limit();
    if (auto seeded = seed_peer_ids(); !seeded) {
        spdlog::critical("cannot start: {}", seeded.error().message);
        return 1;
    }
    Foundation foundation;
    if (auto laid = lay_foundation(config, foundation); !laid) {
        spdlog::critical("cannot start: {}", laid.error().message);
        return 1;
    }
    Supervisor supervisor(config, config_path, foundation);
    if (auto open = supervisor.open_doors(); !open) {
        spdlog::critical("cannot start: {}", open.error().message);
        remove_own_files(config);
        return 1;
    }
    supervisor.run();
    return 0;
}

}  // namespace croupier::daemon

#include "daemon/supervisor/supervisor.h"

#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cinttypes>
#include <csignal>
#include <memory>
#include <optional>
#include <zmq.hpp>

#include "config/load.h"
#include "config/reload.h"
#include "daemon/control/control_server.h"
#include "daemon/control/curve_gate.h"
#include "daemon/control/endpoint.h"
#include "daemon/control/session_registry.h"
#include "daemon/control/statistics_worker.h"
#include "daemon/logging.h"
#include "daemon/observation/explain_route.h"
#include "daemon/observation/health.h"
#include "daemon/observation/http_server.h"
#include "daemon/observation/observation_site.h"
#include "daemon/supervisor/foundation.h"
#include "daemon/supervisor/sampler_pool.h"
#include "daemon/supervisor/signals.h"
#include "daemon/supervisor/successor.h"
#include "daemon/worker/segment_channel.h"
#include "event_log/event_log.h"
#include "shm/clock.h"
#include "shm/snapshot.h"

namespace croupier::daemon {
namespace {

using Clock = std::chrono::steady_clock;
using event_log::Event;

// What is left to do after a drain: samplers end, and what was sent is read.
constexpr std::chrono::seconds kEndAfterDrain{10};
// An engine that is started again meanwhile finds its private daemon.
constexpr std::chrono::seconds kUnusedPatience{2};

// A daemon that hands over waits this long for clients that read slowly.
constexpr int kHandOverLingerMs = 100;

class Supervisor {
  public:
    Supervisor(const config::Config& config, std::string named, Foundation& foundation)
        : config_(config),
          named_(std::move(named)),
          base_(foundation),
          segments_(foundation.plane->header().sampler_count),
          registry_(config, *foundation.plane, segments_, foundation.made_event.get()),
          statistics_(config.shm.dir, config.instance, foundation.made_event.get()),
          pool_(config, *foundation.plane, segments_, foundation.step_event.get(),
                [this](std::uint32_t dead, const proto::PreparedColumn& at) {
                    registry_.reopen_claims(dead, at);
                }),
          control_(context_, config.control.max_message_bytes),
          site_(config.shm.dir, config.instance, *foundation.plane, health_) {}

    shm::Result<bool> bind_endpoints() {
        if (!base_.keys.secret.empty()) gate_.emplace(context_, base_.keys.authorized);
        if (gate_) warn_without_keys(base_.keys);
        const auto& group = config_.shm.group;
        auto control = bind_endpoint(control_.socket(), config_.control.endpoint, "control.endpoint",
                                     config_.control.ipc_mode, group, base_.keys);
        if (!control) return control.error();
        base_.path = std::move(control).value();
        if (config_.metrics.listen == "off") return true;
        return serve_http();
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
    void warn_without_keys(const CurveKeys& keys) const {
        if (!keys.authorized.empty()) return;
        const auto& file = config_.control.curve.authorized_keys_file;
        event_log::write(Event::keys_missing, {{"file", file}},
                         "{} has no key: no client can connect over TCP", file);
    }

    shm::Result<bool> serve_http() {
        if (config_.metrics.explain) {
            CROUPIER_TRY_VALUE(
                explains, ExplainRoute::start(config_.shm.dir, config_.instance, config_.metrics.tokenizer));
            explains_ = std::move(explains);
            event_log::write(Event::explains_decisions, {{"listen", config_.metrics.listen}},
                             "metrics.explain: every user who can reach {} can read prompts and outputs",
                             config_.metrics.listen);
        }
        HttpRoutes routes = site_.routes();
        routes.push_back({"/explain", [this](const HttpRequest& request) {
                              return explains_ ? explains_->ask(request) : no_explanations();
                          }});
        const auto start_at = [&](const std::string& listen) {
            return HttpServer::start(listen, config_.metrics.hosts, routes,
                                     explains_ ? explains_->event_fd() : -1, [this] { site_.observe(); });
        };
        auto server = start_at(config_.metrics.listen);
        const bool is_taken = !server && server.error().code == shm::Errc::already_held;
        // An address of somebody's choice is one that others rely on.
        const bool may_move = config_.metrics.listen == config::Metrics().listen;
        if (is_taken && may_move) server = start_at("127.0.0.1:0");
        if (!server) return server.error();
        http_ = std::move(server).value();
        if (is_taken) {
            event_log::write(Event::metrics_moved,
                             {{"listen", config_.metrics.listen}, {"metrics", http_->address()}},
                             "another program listens at {}: metrics and page are at {}",
                             config_.metrics.listen, http_->address());
        }
        return true;
    }

    void turn() {
        std::array<zmq::pollitem_t, 5> items = {{{control_.socket().handle(), 0, ZMQ_POLLIN, 0},
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
        control_.serve(control_context());
        if ((items[3].revents & ZMQ_POLLIN) != 0) {
            clear(base_.timer);
            housekeep();
        }
    }

    ControlContext control_context() {
        return {&registry_,
                &statistics_,
                [this](const Peer& peer) { return admits(peer); },
                config_.control.endpoint,
                config_.shm.dir,
                config_.instance,
                [this] { begin_drain("asked to over the control socket"); }};
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

    void housekeep() {
        pool_.housekeep();
        registry_.housekeep();
        // SYNC: release; who sees it grow sees what this look has changed.
        base_.plane->header().housekeepings.fetch_add(1, std::memory_order_release);
        event_log::report_left_out();
        announce_ready();
        tell_removed();
        end_if_unused();
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

    // Engines find a daemon by its socket, and commands by its plane: the log has to say what is missing.
    void tell_removed() {
        if (!health_.socket_lost && base_.path.has_lost_guarded()) {
            health_.socket_lost = true;
            event_log::write(Event::files_removed, {{"endpoint", config_.control.endpoint}},
                             "the control socket {} was removed: open sessions go on, but no engine can open "
                             "or resume one. Restart the daemon. systemd-logind removes a user's "
                             "$XDG_RUNTIME_DIR at logout: use `loginctl enable-linger`, or move run_dir and "
                             "control.endpoint",
                             config_.control.endpoint);
        }
        if (removal_told_ || !base_.plane->removed()) return;
        removal_told_ = true;
        event_log::write(Event::files_removed, {{"shm_dir", config_.shm.dir}},
                         "this daemon's files were removed from {}: it still serves sessions, but `croupier "
                         "status` and `croupier top` do not find it. Restart it when no session is open. "
                         "systemd-logind removes a user's files there at logout: set RemoveIPC=no in "
                         "logind.conf, use `loginctl enable-linger`, or move shm.dir",
                         config_.shm.dir);
    }

    void end_if_unused() {
        if (!base_.use || drain_deadline_) return;
        if (base_.use->has_engines()) {
            last_used_ = Clock::now();
        } else if (Clock::now() - last_used_ >= kUnusedPatience && base_.use->close()) {
            begin_drain("no engine uses this private daemon any more");
            closed_ = true;
        }
    }

    void announce_ready() {
        const bool ready = pool_.ready();
        if (ready && !announced_) {
            const std::uint32_t samplers = base_.plane->header().sampler_count;
            event_log::write(Event::ready,
                             {{"samplers", samplers},
                              {"endpoint", config_.control.endpoint},
                              {"shm_dir", config_.shm.dir},
                              {"metrics", http_ ? http_->address() : config_.metrics.listen}},
                             "ready: {} sampler{}, control at {}, segments in {}, {}", samplers,
                             samplers == 1 ? "" : "s", config_.control.endpoint, config_.shm.dir,
                             http_ ? "page at " + http_->page() : "metrics off");
            ::sd_notify(0, "READY=1\nSTATUS=serving");
            announced_ = true;
        }
        health_.ready.store(ready, std::memory_order_relaxed);
    }

    void begin_drain(const char* why) {
        if (drain_deadline_) return;
        health_.draining.store(true, std::memory_order_relaxed);
        registry_.drain();
        const std::size_t count = registry_.count();
        // Said when it holds: who reads the line may rely on it.
        event_log::write(Event::draining, {{"reason", why}, {"sessions", count}},
                         "draining ({}): steps in flight are decided and taken, then {} session{}", why,
                         count, count == 1 ? " ends" : "s end");
        const auto patience = std::chrono::milliseconds(config_.sessions.drain_timeout_ms);
        // The service manager's own limit does not know how long a drain may take.
        ::sd_notifyf(0, "STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC=%" PRId64,
                     std::chrono::microseconds(patience + kEndAfterDrain).count());
        drain_deadline_ = Clock::now() + patience;
    }

    // The sessions stay in shared memory for the daemon that is started next, if it can read them.
    void hand_over() {
        if (drain_deadline_ || done_) return;
        switch (ask_successor({program_, named_, http_ ? http_->address() : ""}, config_)) {
            case Handover::refused:
                return;
            case Handover::sessions_end:
                return begin_drain("SIGUSR1");
            case Handover::possible:
                break;
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
        const auto loaded = config::load(named_);
        if (!loaded.config) {
            log_problems(loaded.file, loaded.problems);
            event_log::write(Event::reload_refused, {{"problems", loaded.problems.size()}},
                             "SIGHUP: the file has errors; the configuration is unchanged");
        } else {
            for (const auto& key : config::unreloadable_changes(config_, *loaded.config)) {
                event_log::write(Event::reload_needs_restart, {{"key", key}},
                                 "SIGHUP: {} changes only with a restart", key);
            }
            config_ = config::reloaded(config_, *loaded.config);
            event_log::configure(settings_of(config_.log));
            pool_.configure(config_.samplers);
            registry_.configure(config_);
            bound_connections(config_);
            const bool has_keys = reload_keys();
            event_log::write(Event::reloaded, {{"file", loaded.file}},
                             "SIGHUP: the reloadable keys of {} are in effect{}", loaded.origin(),
                             has_keys ? "" : ", but the CURVE keys are unchanged");
        }
        if (announced_) ::sd_notify(0, "READY=1");
    }

    // The files may hold other keys now, though their names have not changed. False: they cannot be read.
    bool reload_keys() {
        if (!gate_) return true;
        const auto keys = load_curve_keys(config_.control.curve);
        if (!keys) {
            event_log::write(Event::keys_reload_refused, {}, "SIGHUP: the CURVE keys are unchanged: {}",
                             keys.error().message);
            return false;
        }
        if (keys.value().secret != base_.keys.secret) {
            event_log::write(Event::reload_needs_restart, {{"key", "control.curve.secret_key_file"}},
                             "SIGHUP: the daemon's own CURVE key changes only with a restart");
        }
        gate_->authorize(keys.value().authorized);
        control_.drop_unadmitted([this](const Peer& peer) { return admits(peer); });
        event_log::write(Event::keys_reloaded, {{"keys", keys.value().authorized.size()}},
                         "SIGHUP: {} CURVE keys are authorized", keys.value().authorized.size());
        warn_without_keys(keys.value());
        return true;
    }

    void finish() {
        registry_.end_openings();
        control_.serve(control_context());
        if (handing_over_) {
            pool_.stop();
            // Answers still go out. The next daemon sends again the decided steps that were not taken.
            control_.socket().set(zmq::sockopt::linger, kHandOverLingerMs);
            const std::size_t count = registry_.count();
            event_log::write(Event::handed_over, {{"sessions", count}},
                             "handed over (SIGUSR1): {} session{} for the next daemon", count,
                             count == 1 ? " waits" : "s wait");
        } else {
            registry_.retire_all();
            pool_.stop();
            event_log::write(Event::stopped, {}, "stopped");
        }
        // A daemon that hands over leaves its plane, as a dead one does: `croupier status` reads it until the
        // next one starts. Another daemon may be starting in its place, or a cleanup at work.
        const auto alone = shm::lock_directory(config_.shm.dir);
        if (alone && !handing_over_) remove_own_files(config_, *base_.plane);
        if (closed_) base_.use->remove_files(config_.shm.dir, config_.instance);
    }

    config::Config config_;
    std::string named_;
    const std::string program_ = own_program();
    Foundation& base_;
    zmq::context_t context_;
    std::optional<CurveGate> gate_;
    SegmentChannel segments_;
    SessionRegistry registry_;
    StatisticsWorker statistics_;
    SamplerPool pool_;
    ControlServer control_;
    Health health_;
    ObservationSite site_;
    std::unique_ptr<ExplainRoute> explains_;  // null where nothing is explained
    std::unique_ptr<HttpServer> http_;
    std::optional<Clock::time_point> drain_deadline_;
    std::chrono::microseconds watchdog_{0};
    Clock::time_point last_watchdog_;
    Clock::time_point last_used_ = Clock::now();
    bool closed_ = false;  // no engine uses it, and none joins any more
    bool removal_told_ = false;
    bool announced_ = false;
    bool handing_over_ = false;
    bool done_ = false;
};

}  // namespace

namespace {

// Its locks go with the foundation, and leave the folder empty.
class OwnRunDir {
  public:
    explicit OwnRunDir(const config::Config& config) : path_(config.run_dir) {}
    OwnRunDir(const OwnRunDir&) = delete;
    OwnRunDir& operator=(const OwnRunDir&) = delete;
    ~OwnRunDir() {
        if (path_ == proto::own_paths().run_dir) ::rmdir(path_.c_str());
    }

  private:
    std::string path_;
};

}  // namespace

int run_supervisor(const config::Config& config, const std::string& named, int used_by_fd) {
    shm::survive_lost_pages();
    const OwnRunDir run_dir(config);
    Foundation foundation;
    if (used_by_fd >= 0) {
        auto use = PrivateUse::inherit(used_by_fd);
        if (!use) {
            event_log::write(Event::cannot_start, {}, "cannot start: {}", use.error().message);
            return 1;
        }
        foundation.use.emplace(std::move(use).value());
    }
    if (auto laid = acquire_resources(config, foundation); !laid) {
        event_log::write(Event::cannot_start, {}, "cannot start: {}", laid.error().message);
        return 1;
    }
    Supervisor supervisor(config, named, foundation);
    if (auto open = supervisor.bind_endpoints(); !open) {
        event_log::write(Event::cannot_start, {}, "cannot start: {}", open.error().message);
        // While sessions wait for a daemon, commands tell from the plane that there is none.
        const bool awaited = !shm::segment_files(config.shm.dir, config.instance).empty();
        if (const auto alone = shm::lock_directory(config.shm.dir); alone && !awaited)
            remove_own_files(config, *foundation.plane);
        return 1;
    }
    supervisor.run();
    event_log::report_all_left_out();
    return 0;
}

}  // namespace croupier::daemon

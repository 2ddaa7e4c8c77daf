#include "daemon/supervisor/sampler_pool.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "daemon/logging.h"
#include "daemon/worker/sampler_end.h"
#include "event_log/event_log.h"
#include "host/placement.h"
#include "shm/bell.h"
#include "shm/clock.h"
#include "shm/wait_strategy.h"

namespace croupier::daemon {
namespace {

using event_log::Event;

// A sampler that lives shorter than this is restarted with a growing delay.
constexpr std::chrono::seconds kQuickDeath{1};
constexpr std::uint32_t kLongestBackoffShift = 7;

// Of the time between two looks at the samplers' hearts no more counts against them: if it is longer, this
// process was held up itself, and may have been frozen together with them.
constexpr std::chrono::milliseconds kLongestLook{100};

// A process that starts has this long until its first heartbeat, however short heartbeat_timeout_ms is: a
// slow host's samplers would never come up.
constexpr std::chrono::milliseconds kStart{5000};

shm::WaitMode wait_mode(config::Wait wait) {
    switch (wait) {
        case config::Wait::spin:
            return shm::WaitMode::spin;
        case config::Wait::adaptive:
            return shm::WaitMode::adaptive;
        case config::Wait::sleep:
            return shm::WaitMode::sleep;
    }
    return shm::WaitMode::adaptive;
}

}  // namespace

SamplerPool::SamplerPool(const config::Config& config, shm::Plane& plane, SegmentChannel& segments,
                         int event_fd, OnDeath on_death)
    : config_(config),
      plane_(&plane),
      segments_(&segments),
      event_fd_(event_fd),
      on_death_(std::move(on_death)) {
    const std::uint32_t threads = plane.header().threads_per_sampler;
    children_.resize(plane.header().sampler_count);
    if (config.samplers.pin) {
        const auto cores = host::place_samplers(static_cast<std::uint32_t>(children_.size()), threads,
                                                config.samplers.cores);
        for (std::size_t i = 0; i < children_.size(); ++i) children_[i].cores = cores[i];
    }
    tune_samplers();
}

SamplerPool::~SamplerPool() {
    stop();
}

void SamplerPool::start() {
    for (std::size_t index = 0; index < children_.size(); ++index) spawn(index);
}

void SamplerPool::tune_samplers() const {
    auto& header = plane_->header();
    header.wait_mode.store(static_cast<std::uint32_t>(wait_mode(config_.samplers.wait)),
                           std::memory_order_relaxed);
    header.spin_us.store(config_.samplers.spin_us, std::memory_order_relaxed);
    header.max_sleep_us.store(config_.samplers.max_sleep_us, std::memory_order_relaxed);
    header.state_limit_bytes.store(config_.samplers.max_state_bytes, std::memory_order_relaxed);
}

void SamplerPool::configure(const config::Samplers& samplers) {
    config_.samplers = samplers;
    tune_samplers();
    // Samplers read the tunables again when the session table's version changes.
    plane_->header().table_version.fetch_add(1, std::memory_order_release);
    shm::ring(plane_->header().bell);
}

std::vector<std::string> SamplerPool::arguments(std::size_t index, int plane_fd, int segments_fd) const {
    return {"croupierd",
            "--sampler",
            std::to_string(index),
            "--instance",
            config_.instance,
            "--threads",
            std::to_string(config_.samplers.threads_per_sampler),
            "--cores",
            children_[index].cores,
            "--event-fd",
            std::to_string(event_fd_),
            "--plane-fd",
            std::to_string(plane_fd),
            "--segments-fd",
            std::to_string(segments_fd),
            "--supervisor",
            std::to_string(::getpid()),
            "--log-level",
            std::string(event_log::name_of(event_log::settings().least)),
            "--log-format",
            std::string(event_log::name_of(event_log::settings().format))};
}

shm::Result<std::int32_t> SamplerPool::start_process(std::size_t index) {
    // Without the daemon's lock, which would be the sampler's too.
    CROUPIER_TRY_VALUE(plane, plane_->open_again());
    CROUPIER_TRY_VALUE(segments, segments_->connect(static_cast<std::uint32_t>(index)));
    std::vector<std::string> words = arguments(index, plane.get(), segments.get());
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    // Onto itself: it stays open in the new process.
    for (const int kept : {plane.get(), segments.get()})
        ::posix_spawn_file_actions_adddup2(&actions, kept, kept);
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    // The supervisor blocks the signals that it reads from a descriptor; its children must not inherit that.
    sigset_t none;
    ::sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    pid_t pid = 0;
    const int error = ::posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, argv.data(), environ);
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0) return shm::system_failure("cannot start", "a process", error);
    return pid;
}

void SamplerPool::spawn(std::size_t index) {
    Child& child = children_[index];
    auto& shared = entry(index);
    // Never 0, which is a free claim's owner.
    shared.incarnation.store(next_incarnation_++, std::memory_order_relaxed);
    shared.state.store(proto::SamplerState::starting, std::memory_order_relaxed);
    shared.core.store(host::first_core(child.cores), std::memory_order_relaxed);
    shared.heartbeat_ns.store(shm::monotonic_ns(), std::memory_order_release);
    const auto started = start_process(index);
    child.spawned = Clock::now();
    if (!started) {
        event_log::write(
            Event::sampler_not_started, {{"sampler", index}, {"reason", started.error().message}},
            "cannot start sampler {}: {}; trying again in a second", index, started.error().message);
        child.pid = 0;
        child.failed = true;
        child.restart_at = Clock::now() + std::chrono::seconds(1);
        return;
    }
    const pid_t pid = started.value();
    child.pid = pid;
    child.log = event_log::settings();
    shared.pid.store(pid, std::memory_order_relaxed);
    event_log::write(
        Event::sampler_started, {{"sampler", index}, {"sampler_pid", pid}, {"cores", child.cores}},
        "sampler {} has pid {}{}", index, pid, child.cores.empty() ? "" : ", cores " + child.cores);
}

void SamplerPool::reap() {
    for (std::size_t index = 0; index < children_.size(); ++index) {
        int status = 0;
        if (children_[index].pid != 0 && ::waitpid(children_[index].pid, &status, WNOHANG) > 0)
            handle_exit(index, status);
    }
}

void SamplerPool::handle_exit(std::size_t index, int status) {
    Child& child = children_[index];
    const std::uint32_t dead = entry(index).incarnation.load(std::memory_order_relaxed);
    if (stopping_) {
        child.pid = 0;
        entry(index).state.store(proto::SamplerState::empty, std::memory_order_relaxed);
        return;
    }
    const std::string how = described_end(status);
    event_log::write(Event::sampler_lost, {{"sampler", index}, {"sampler_pid", child.pid}, {"reason", how}},
                     "sampler {} (pid {}) {}: restarting it", index, child.pid, how);
    child.pid = 0;
    child.failed = true;
    entry(index).state.store(proto::SamplerState::restarting, std::memory_order_relaxed);
    entry(index).restarts.fetch_add(1, std::memory_order_relaxed);
    on_death_(dead, entry(index).prepares);
    entry(index).prepares.session_id.store(0, std::memory_order_relaxed);
    shm::ring(plane_->header().bell);
    child.quick_deaths = Clock::now() - child.spawned < kQuickDeath ? child.quick_deaths + 1 : 0;
    if (child.quick_deaths == 0) return spawn(index);
    const auto factor = 1U << std::min(child.quick_deaths - 1, kLongestBackoffShift);
    child.restart_at = Clock::now() + std::chrono::milliseconds(config_.samplers.restart_backoff_ms) * factor;
}

void SamplerPool::housekeep() {
    const auto now = Clock::now();
    const auto awake = std::min<std::chrono::nanoseconds>(now - last_housekeeping_, kLongestLook);
    last_housekeeping_ = now;
    for (std::size_t index = 0; index < children_.size(); ++index) {
        if (children_[index].pid != 0) {
            listen(index, awake);
        } else if (!stopping_ && now >= children_[index].restart_at) {
            spawn(index);
        }
    }
}

// One that starts has them from its command line, and would not hear it yet.
void SamplerPool::follow_log_settings(std::size_t index) {
    Child& child = children_[index];
    const auto now = event_log::settings();
    if (child.log == now ||
        entry(index).state.load(std::memory_order_acquire) != proto::SamplerState::running)
        return;
    if (tell_log_settings(child.pid, now)) child.log = now;
}

std::chrono::milliseconds SamplerPool::longest_silence(std::size_t index) const {
    const std::chrono::milliseconds configured(config_.samplers.heartbeat_timeout_ms);
    const bool starts = entry(index).state.load(std::memory_order_acquire) == proto::SamplerState::starting;
    return starts ? std::max(configured, kStart) : configured;
}

void SamplerPool::listen(std::size_t index, std::chrono::nanoseconds awake) {
    Child& child = children_[index];
    // Read before the heartbeat: a sampler sends its first one before it says that it is running.
    const auto longest = longest_silence(index);
    const std::uint64_t beat = entry(index).heartbeat_ns.load(std::memory_order_acquire);
    child.silence = beat == child.beat ? child.silence + awake : std::chrono::nanoseconds(0);
    child.beat = beat;
    follow_log_settings(index);
    if (child.silence <= longest) return;
    const auto silent_ms = std::chrono::duration_cast<std::chrono::milliseconds>(child.silence).count();
    event_log::write(
        Event::sampler_hung, {{"sampler", index}, {"sampler_pid", child.pid}, {"silent_ms", silent_ms}},
        "sampler {} (pid {}) sent no heartbeat for {} ms: killing it", index, child.pid, silent_ms);
    ::kill(child.pid, SIGKILL);
    child.silence = std::chrono::nanoseconds(0);
}

bool SamplerPool::ready() const {
    bool any = false;
    for (std::size_t index = 0; index < children_.size(); ++index) {
        const bool runs = entry(index).state.load(std::memory_order_acquire) == proto::SamplerState::running;
        if (!runs && !children_[index].failed) return false;
        any = any || runs;
    }
    return any;
}

std::int32_t SamplerPool::node() const {
    std::vector<std::string> cores;
    for (const Child& child : children_) cores.push_back(child.cores);
    return host::node_of(cores);
}

void SamplerPool::stop() {
    stopping_ = true;
    for (const Child& child : children_) {
        if (child.pid != 0) ::kill(child.pid, kEndSampler);
    }
    shm::ring(plane_->header().bell);
    for (std::size_t index = 0; index < children_.size(); ++index) {
        if (children_[index].pid == 0) continue;
        int status = 0;
        // A sampler ends within its idle sleep plus one column; one that hangs is not waited for.
        const auto deadline = Clock::now() + std::chrono::seconds(5);
        while (::waitpid(children_[index].pid, &status, WNOHANG) == 0) {
            if (Clock::now() > deadline) ::kill(children_[index].pid, SIGKILL);
            ::usleep(1000);
        }
        handle_exit(index, status);
    }
}

}  // namespace croupier::daemon

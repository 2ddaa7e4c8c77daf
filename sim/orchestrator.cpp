#include "sim/orchestrator.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <thread>

#include "client/unreachable.h"
#include "shm/clock.h"
#include "shm/futex.h"
#include "sim/daemon_options.h"
#include "sim/scheduler_process.h"
#include "sim/verifier.h"
#include "sim/writer_process.h"

namespace croupier::sim {
namespace {

constexpr std::chrono::milliseconds kLook{50};
constexpr std::chrono::milliseconds kLookForVictim{1};
constexpr std::uint64_t kFirstStepGuessNs = 10'000'000;
// How long --verify sample goes on after serving has ended.
constexpr std::uint64_t kSampleNs = 3'000'000'000;
// If the session is not open by then, the run prints what it is waiting for.
constexpr std::uint64_t kSilentNs = 1'000'000'000;

volatile std::sig_atomic_t interrupted = 0;

void note_interrupt(int) {
    interrupted = 1;
}
// Installed so that a child's death interrupts the orchestrator's sleep.
void note_child(int) {}

void handle(int signal, void (*handler)(int)) {
    struct sigaction action {};
    action.sa_handler = handler;
    ::sigaction(signal, &action, nullptr);
}

// "/dev/shm/croupier-0/croupier-<instance>-<session>.seg"
std::string instance_of_segment(const std::string& path) {
    const std::string name = std::filesystem::path(path).filename().string();
    const auto begin = name.find('-');
    const auto end = name.rfind('-');
    return begin == std::string::npos || end <= begin ? std::string()
                                                      : name.substr(begin + 1, end - begin - 1);
}

}  // namespace

Orchestrator::Orchestrator(const SimOptions& options)
    : world_(options), chaos_(options), view_(world_), started_ns_(shm::monotonic_ns()) {
    world_.session_name = "sim-" + std::to_string(::getpid());
    if (options.stops) tokenizer_.emplace(testing::tiktoken_file(world_.pieces));
    if (tokenizer_) world_.tokenizer_path = tokenizer_->path();
    if (options.endpoint.empty()) {
        daemon_ = std::make_unique<testing::OwnDaemon>(daemon_options(options, world_.session_name));
        world_.endpoint = daemon_->endpoint();
    } else {
        world_.endpoint = options.endpoint;
    }
    handle(SIGINT, note_interrupt);
    handle(SIGTERM, note_interrupt);
    handle(SIGCHLD, note_child);
}

testing::ChildProcess Orchestrator::start_scheduler() {
    return testing::ChildProcess::run(
        [this] { Scheduler(world_).run(); },
        [this](const std::string& why) { world_.ledger.report_fault("scheduler: " + why); });
}

testing::ChildProcess Orchestrator::start_writer(std::uint32_t rank) {
    return testing::ChildProcess::run(
        [this, rank] { world_.options.on_gpu ? run_gpu_writer(world_, rank) : run_writer(world_, rank); },
        [this, rank](const std::string& why) {
            world_.ledger.report_fault("writer of rank " + std::to_string(rank) + ": " + why);
        });
}

void Orchestrator::start_processes() {
    world_.ledger.head().kills_to_come = world_.options.kills;
    if (daemon_) daemon_->start();
    scheduler_ = start_scheduler();
    for (std::uint32_t rank = 0; rank < world_.options.tp; ++rank) writers_.push_back(start_writer(rank));
    if (world_.options.verification == Verification::never) return;
    for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) {
        verifiers_.push_back(testing::ChildProcess::run(
            [this] { run_verifier(world_); },
            [this](const std::string& why) { world_.ledger.report_fault("verifier: " + why); }));
    }
}

bool Orchestrator::over() const {
    const auto running = [](const testing::ChildProcess& child) { return child.running(); };
    return !scheduler_.running() && std::none_of(writers_.begin(), writers_.end(), running) &&
           (sample_is_taken() || std::none_of(verifiers_.begin(), verifiers_.end(), running));
}

// Requires at least one token: on a busy machine three seconds may not be enough.
bool Orchestrator::sample_is_taken() const {
    return world_.options.verification == Verification::sample && served_ns_ != 0 &&
           shm::monotonic_ns() - served_ns_ > kSampleNs &&
           world_.ledger.head().verified.load() + world_.ledger.head().mismatched.load() > 0;
}

void Orchestrator::note_end_of_serving() {
    if (served_ns_ != 0 || world_.ledger.head().served.load() == 0 || scheduler_.running()) return;
    served_ns_ = shm::monotonic_ns();
    // One that was killed a moment ago is only starting, and would die of SIGTERM before it knows how to
    // drain.
    if (daemon_ && !daemon_ended_) daemon_->await_ready();
    // Spinning samplers would leave verifiers no core.
    end_daemon();
}

void Orchestrator::report_waiting() {
    const std::uint64_t waited_ns = shm::monotonic_ns() - started_ns_;
    if (waiting_reported_ || waited_ns < kSilentNs || !world_.ledger.segment_path().empty()) return;
    waiting_reported_ = true;
    if (daemon_) {
        std::cerr << "croupier sim: waiting for croupierd to start\n";
        return;
    }
    const auto waited_ms = static_cast<long>(waited_ns / 1'000'000);
    std::cerr << "croupier sim: waiting for a daemon: "
              << client::endpoint_silent(world_.endpoint, waited_ms).message << "\n";
}

void Orchestrator::check_end(const char* what, const std::optional<testing::ChildEnd>& end) {
    if (!end || (end->signal == 0 && end->exit_code == 0)) return;
    const std::string how = end->signal != 0 ? "was killed by signal " + std::to_string(end->signal)
                                             : "ended with exit code " + std::to_string(end->exit_code);
    world_.ledger.report_fault(std::string("a ") + what + " " + how);
}

void Orchestrator::check_children() {
    check_end("scheduler", scheduler_.poll());
    for (testing::ChildProcess& writer : writers_) check_end("writer", writer.poll());
    for (testing::ChildProcess& verifier : verifiers_) check_end("verifier", verifier.poll());
    check_daemon();
    const std::uint64_t elapsed_s = (shm::monotonic_ns() - started_ns_) / 1'000'000'000;
    if (elapsed_s >= world_.options.timeout_s) {
        world_.ledger.report_fault(
            "not finished within --timeout-s " + std::to_string(world_.options.timeout_s) + " seconds, at " +
            std::to_string(static_cast<int>(world_.ledger.progress() * 100.0)) + " % of the work");
    }
}

void Orchestrator::check_daemon() {
    if (!daemon_ || daemon_ended_) return;
    const auto end = daemon_->poll();
    if (!end) return;
    world_.ledger.report_fault("croupierd ended: " + daemon_->last_error(*end));
}

void Orchestrator::watch_until_over() {
    const auto& bell = world_.ledger.head().bell;
    while (true) {
        const std::uint32_t seen = bell.load(std::memory_order_acquire);
        check_children();
        note_end_of_serving();
        interrupted_ = interrupted != 0;
        if (over() || interrupted_ || !world_.ledger.fault().empty()) return;
        report_waiting();
        view_.show(chaos_.kills());
        const bool kill_due = chaos_.is_due(world_.ledger.progress()) && scheduler_.running();
        if (kill_due) kill_something();
        shm::futex_wait(bell, seen, kill_due ? kLookForVictim : kLook);
    }
}

bool Orchestrator::kill_sampler() {
    const std::string path = world_.ledger.segment_path();
    const auto pid =
        chaos_.pick_sampler(std::filesystem::path(path).parent_path().string(), instance_of_segment(path));
    return pid && ::kill(*pid, SIGKILL) == 0;
}

void Orchestrator::kill_something() {
    const std::uint64_t usual = world_.ledger.head().step_latency.percentile_ns(0.5);
    chaos_.await_random_moment(usual == 0 ? kFirstStepGuessNs : usual);
    bool killed = true;
    if (chaos_.target() == ChaosTarget::samplers) {
        killed = kill_sampler();
    } else if (chaos_.target() == ChaosTarget::daemon) {
        daemon_->kill_and_restart();
    } else if (chaos_.target() == ChaosTarget::writer) {
        const std::uint32_t rank = chaos_.pick(world_.options.tp);
        writers_[rank].send(SIGKILL);
        writers_[rank].wait();
        writers_[rank] = start_writer(rank);
    } else {
        scheduler_.send(SIGKILL);
        scheduler_.wait();
        scheduler_ = start_scheduler();
    }
    if (!killed) return;
    chaos_.count_kill();
    auto& to_come = world_.ledger.head().kills_to_come;
    to_come.fetch_sub(1, std::memory_order_relaxed);
    shm::futex_wake_all(to_come);
}

void Orchestrator::shut_down() {
    scheduler_ = testing::ChildProcess();
    writers_.clear();
    verifiers_.clear();
    end_daemon();
}

void Orchestrator::end_daemon() {
    if (!daemon_ || daemon_ended_) return;
    daemon_ended_ = true;
    daemon_view_ = view_daemon(world_.options.shm_dir, daemon_->instance());
    if (daemon_->stop()) return;
    world_.ledger.report_fault("croupierd did not shut down cleanly after SIGTERM; end of its log:\n" +
                               daemon_->end_of_log());
}

std::size_t Orchestrator::count_left_in_shm() const {
    if (daemon_) return testing::files_of_instance(world_.options.shm_dir, daemon_->instance());
    // If the run was interrupted, a running daemon keeps the session until its grace period ends.
    const std::string path = world_.ledger.segment_path();
    return !interrupted_ && !path.empty() && std::filesystem::exists(path) ? 1 : 0;
}

Report Orchestrator::run() {
    start_processes();
    watch_until_over();
    shut_down();
    view_.finish();
    Report report = collect_report(world_);
    report.kills = chaos_.kills();
    report.daemon = daemon_view_;
    report.left_in_shm = count_left_in_shm();
    report.wall_s = static_cast<double>(shm::monotonic_ns() - started_ns_) * 1e-9;
    report.fault = world_.ledger.fault();
    report.interrupted = interrupted_;
    return report;
}

}  // namespace croupier::sim

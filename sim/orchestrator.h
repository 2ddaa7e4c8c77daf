// The parent process of a run: starts, kills and restarts the other processes, and creates the report.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/chaos.h"
#include "sim/daemon_view.h"
#include "sim/live_view.h"
#include "sim/report.h"
#include "sim/world.h"
#include "testing/child_process.h"
#include "testing/own_daemon.h"

namespace croupier::sim {

// Must stay single-threaded, because it forks children at any time and they use its objects.
class Orchestrator {
  public:
    explicit Orchestrator(const SimOptions& options);

    Report run();
    const World& world() const { return world_; }

  private:
    void start_processes();
    testing::ChildProcess start_scheduler();
    testing::ChildProcess start_writer(std::uint32_t rank);
    void watch_until_over();
    bool over() const;
    bool sample_is_taken() const;
    void note_end_of_serving();
    void report_waiting();
    void check_children();
    void check_daemon();
    void check_end(const char* what, const std::optional<testing::ChildEnd>& end);
    void kill_something();
    bool kill_sampler();
    void shut_down();
    void end_daemon();
    std::size_t count_left_in_shm() const;

    World world_;
    std::optional<testing::TokenizerFile> tokenizer_;
    Chaos chaos_;
    LiveView view_;
    std::uint64_t started_ns_;
    std::uint64_t served_ns_ = 0;  // 0 while serving
    bool interrupted_ = false;
    bool waiting_reported_ = false;
    std::unique_ptr<testing::OwnDaemon> daemon_;
    bool daemon_ended_ = false;
    DaemonView daemon_view_;
    testing::ChildProcess scheduler_;
    std::vector<testing::ChildProcess> writers_;
    std::vector<testing::ChildProcess> verifiers_;
};

}  // namespace croupier::sim

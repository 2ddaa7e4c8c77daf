// A croupierd for the duration of a command: its own instance, run directory and sockets.
#pragma once

#include <csignal>
#include <optional>
#include <string>

#include "testing/child_process.h"

namespace croupier::testing {

// Whether this daemon has brought up all that it starts.
bool every_sampler_runs(const std::string& shm_dir, const std::string& instance, pid_t daemon);

// Of the daemons that this user runs for itself.
std::string private_shm_dir();

struct OwnDaemonOptions {
    std::string executable;  // empty: croupierd beside the running program
    std::string instance;
    std::string shm_dir = private_shm_dir();
    std::string sections;  // YAML: samplers, sessions and what else is not the directory's own
    bool keep = false;     // the directory, with configuration and log
};

class OwnDaemon {
  public:
    // Writes the configuration; throws std::runtime_error when there is no croupierd to start.
    explicit OwnDaemon(OwnDaemonOptions options);
    OwnDaemon(const OwnDaemon&) = delete;
    OwnDaemon& operator=(const OwnDaemon&) = delete;
    ~OwnDaemon();

    void start();
    // Throws std::runtime_error with the end of the log when not every sampler runs within seconds.
    void await_ready();
    // SIGKILL, and at once a new one: what a service manager does.
    void kill_and_restart();
    // SIGTERM; false when it did not end in time or not cleanly.
    bool stop();

    const std::string& instance() const { return options_.instance; }
    const std::string& directory() const { return directory_; }
    std::string endpoint() const;
    // How it ended, when it ended by itself.
    std::optional<ChildEnd> poll() { return process_.poll(); }
    std::string end_of_log() const;
    // Why it ended: the message of its log's last error; where there is none, its end and the end of its log.
    std::string last_error(const ChildEnd& end) const;

  private:
    void write_config() const;

    OwnDaemonOptions options_;
    std::string directory_;
    ChildProcess process_;
};

// The instance's files in `directory`: after a run there should be none.
std::size_t files_of_instance(const std::string& directory, const std::string& instance);

}  // namespace croupier::testing

// Runs a croupierd for the duration of a command, with its own instance, run directory and sockets.
#pragma once

#include <csignal>
#include <optional>
#include <string>

#include "testing/child_process.h"

namespace croupier::testing {

// Whether all samplers of this daemon are running.
bool every_sampler_runs(const std::string& shm_dir, const std::string& instance, pid_t daemon);

// The shm directory of daemons that this user starts.
std::string private_shm_dir();

struct OwnDaemonOptions {
    std::string executable;  // empty: croupierd in the folder of the running program
    std::string instance;
    std::string shm_dir = private_shm_dir();
    std::string sections;  // YAML of all sections except those with paths
    bool keep = false;     // keep the directory with configuration and log
};

class OwnDaemon {
  public:
    // Writes the configuration. Throws std::runtime_error if there is no croupierd to start.
    explicit OwnDaemon(OwnDaemonOptions options);
    OwnDaemon(const OwnDaemon&) = delete;
    OwnDaemon& operator=(const OwnDaemon&) = delete;
    ~OwnDaemon();

    void start();
    // Throws std::runtime_error with the end of the log if the samplers do not start within seconds.
    void await_ready();
    // Sends SIGKILL and starts a new daemon at once, as a service manager does.
    void kill_and_restart();
    // Sends SIGTERM. Returns false if the daemon does not end in time or not cleanly.
    bool stop();

    const std::string& instance() const { return options_.instance; }
    const std::string& directory() const { return directory_; }
    std::string endpoint() const;
    // How it ended, if it ended by itself.
    std::optional<ChildEnd> poll() { return process_.poll(); }
    std::string end_of_log() const;
    // Why it ended: the last error message in its log, or its exit status and the end of the log.
    std::string last_error(const ChildEnd& end) const;

  private:
    void write_config() const;

    OwnDaemonOptions options_;
    std::string directory_;
    ChildProcess process_;
};

// The number of files of the instance in `directory`; 0 after a clean run.
std::size_t files_of_instance(const std::string& directory, const std::string& instance);

}  // namespace croupier::testing

// The croupierd that a run starts for itself, in a directory of its own.
#pragma once

#include <optional>
#include <string>

#include "tools/sim/child_process.h"
#include "tools/sim/options.h"

namespace croupier::tools::sim {

class SimDaemon {
  public:
    // Writes the configuration; throws std::runtime_error when there is no croupierd to start.
    SimDaemon(const SimOptions& options, std::string instance);
    SimDaemon(const SimDaemon&) = delete;
    SimDaemon& operator=(const SimDaemon&) = delete;
    ~SimDaemon();

    void start();
    // SIGKILL, and at once a new one: what a service manager does.
    void kill_and_restart();
    // SIGTERM; false when it did not end in time or not cleanly.
    bool stop();

    const std::string& instance() const { return instance_; }
    const std::string& directory() const { return directory_; }
    std::string endpoint() const;
    // How it ended, when it ended by itself.
    std::optional<ChildEnd> poll() { return process_.poll(); }
    std::string end_of_log() const;

  private:
    void write_config(const SimOptions& options) const;

    std::string instance_;
    std::string executable_;
    std::string directory_;
    bool keep_;
    ChildProcess process_;
};

// The instance's files in `directory`: after a run there should be none.
std::size_t files_of_instance(const std::string& directory, const std::string& instance);

}  // namespace croupier::tools::sim

// A croupierd for the duration of a command: its own instance, run directory and sockets.
#pragma once

#include <cstdint>
#include <string>

namespace croupier::tools {

struct OwnDaemonOptions {
    std::string binary;  // empty: croupierd beside the running program
    std::string instance;
    std::uint32_t samplers = 1;
    std::string wait = "adaptive";
    std::string cores = "auto";
};

class OwnDaemon {
  public:
    // Starts it and waits until it is ready; throws std::runtime_error that says why it is not.
    explicit OwnDaemon(const OwnDaemonOptions& options);
    // SIGTERM, and waits for it.
    ~OwnDaemon();
    OwnDaemon(const OwnDaemon&) = delete;
    OwnDaemon& operator=(const OwnDaemon&) = delete;

    std::string endpoint() const { return "ipc://" + directory_ + "/control.sock"; }
    std::int32_t pid() const { return pid_; }

  private:
    void write_config(const OwnDaemonOptions& options) const;
    void await_ready(const std::string& instance) const;

    std::string directory_;
    std::int32_t pid_ = 0;
};

// The path of a program that lies beside the running one.
std::string beside_this_program(const std::string& name);

}  // namespace croupier::tools

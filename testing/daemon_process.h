// A real croupierd for a test: its own instance, run directory and log; killed and started again at will.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shm/plane.h"
#include "testing/child_process.h"

namespace croupier::testing {

// Looks until `condition` holds; false when it does not within twenty seconds. For states that other
// processes reach and announce nowhere but in shared memory.
bool eventually(const std::function<bool()>& condition);

// By a signal, and not yet continued.
bool is_stopped(pid_t process);

constexpr const char* kTwoSamplers = "{count: 2, wait: adaptive}";

// A place for one instance; what it holds and what it left in /dev/shm goes with it.
class Sandbox {
  public:
    Sandbox();
    ~Sandbox();
    Sandbox(const Sandbox&) = delete;
    Sandbox& operator=(const Sandbox&) = delete;

    // `extra` is YAML that replaces or adds to the sections of a small default configuration; @shm@ in it is
    // shm_directory().
    void write_config(const std::string& samplers, const std::string& extra) const;

    const std::string& instance() const { return instance_; }
    const std::string& directory() const { return directory_; }
    std::string config_path() const { return directory_ + "/croupierd.yaml"; }
    std::string endpoint() const { return "ipc://" + directory_ + "/control.sock"; }
    // Where the instance's segments, plane and bell lie.
    std::string shm_directory() const;
    std::size_t files_in_shm() const;

  private:
    std::string directory_;
    std::string instance_;
};

// A croupierd that ends by itself.
Ended run_croupierd(const Sandbox& sandbox, const std::vector<std::string>& arguments);

class DaemonProcess : public Sandbox {
  public:
    explicit DaemonProcess(const std::string& samplers = kTwoSamplers, const std::string& extra = "",
                           std::string program = CROUPIERD_PATH);

    void start();
    bool await_ready() const;
    void kill_now();  // SIGKILL, reaped
    void restart_after_kill();
    int terminate();  // SIGTERM, reaped: the exit status, -1 when a signal ended it
    int await_end();
    void signal(int number) const;
    // Returns when it has looked after its sessions once more, from the first to the last.
    void await_housekeeping() const;
    // Returns when each sampler has looked at its sessions once more and found nothing to decide.
    void await_idle_samplers() const;

    pid_t pid() const { return process_.pid(); }
    std::string log() const;
    bool says(const std::string& text) const { return log().find(text) != std::string::npos; }
    shm::Plane plane() const;
    pid_t sampler_pid(std::uint32_t index) const;
    std::uint32_t sampler_restarts() const;

  private:
    std::string program_;
    ChildProcess process_;
};

}  // namespace croupier::testing

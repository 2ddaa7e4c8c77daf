// A child that cannot outlive its parent, and that is reaped without being waited for.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace croupier::testing {

struct ChildEnd {
    int exit_code = -1;  // -1: a signal ended it
    int signal = 0;      // not 0: killed by it
};

// A program that ended: its exit status (-1: a signal) and what it said on both outputs.
struct Ended {
    int status = -1;
    std::string output;
};

class ChildProcess {
  public:
    ChildProcess() = default;
    // All throw std::system_error.
    // `body` runs in a forked child and returns its exit code. It must open its own segments: an inherited
    // descriptor shares its parent's locks.
    static ChildProcess start(const std::function<int()>& body);
    // As part of a run from a terminal, where Ctrl-C is the parent's: what `body` throws is handed to
    // `on_failure`.
    static ChildProcess run(const std::function<void()>& body,
                            const std::function<void(const std::string&)>& on_failure);
    // Both outputs are appended to a file. `death_signal` is sent when the parent dies: by SIGTERM a daemon
    // removes its files.
    static ChildProcess execute(const std::vector<std::string>& arguments, const std::string& output_path,
                                int death_signal);

    ChildProcess(ChildProcess&& other) noexcept;
    ChildProcess& operator=(ChildProcess&& other) noexcept;
    ~ChildProcess();

    pid_t pid() const { return pid_; }
    bool running() const { return pid_ > 0; }
    void send(int signal) const;
    void kill_and_reap();
    // How it ended, once; nothing while it runs or when it never did.
    std::optional<ChildEnd> poll();
    // The exit code; -1 when a signal ended it.
    int wait();
    // Returns when the child has stopped itself.
    bool wait_until_stopped() const;

  private:
    explicit ChildProcess(pid_t pid) : pid_(pid) {}
    std::optional<ChildEnd> reap(int options);

    pid_t pid_ = 0;
};

}  // namespace croupier::testing

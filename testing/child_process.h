// A child process that cannot outlive its parent.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace croupier::testing {

struct ChildEnd {
    int exit_code = -1;  // -1 if a signal ended it
    int signal = 0;      // the signal that killed it, or 0
};

// A program that ended: its exit status (-1 if by a signal) and its output on both streams.
struct Ended {
    int status = -1;
    std::string output;
};

class ChildProcess {
  public:
    ChildProcess() = default;
    // All throw std::system_error.
    // Runs `body` in a forked child; it returns the exit code. It must open its own segments, because an
    // inherited descriptor shares the parent's locks.
    static ChildProcess start(const std::function<int()>& body);
    // Like start(), but ignores Ctrl-C, which the parent handles. Passes the message of an exception to
    // `on_failure`.
    static ChildProcess run(const std::function<void()>& body,
                            const std::function<void(const std::string&)>& on_failure);
    // Appends both output streams to a file. Sends `death_signal` when the parent dies; after SIGTERM a
    // daemon removes its files.
    static ChildProcess execute(const std::vector<std::string>& arguments, const std::string& output_path,
                                int death_signal);

    ChildProcess(ChildProcess&& other) noexcept;
    ChildProcess& operator=(ChildProcess&& other) noexcept;
    ~ChildProcess();

    pid_t pid() const { return pid_; }
    bool running() const { return pid_ > 0; }
    void send(int signal) const;
    void kill_and_reap();
    // How it ended, reported once; nothing while it runs or if it was never started.
    std::optional<ChildEnd> poll();
    // The exit code; -1 if a signal ended it.
    int wait();
    // Returns when the child has been stopped by a signal.
    bool wait_until_stopped() const;

  private:
    explicit ChildProcess(pid_t pid) : pid_(pid) {}
    std::optional<ChildEnd> reap(int options);

    pid_t pid_ = 0;
};

}  // namespace croupier::testing

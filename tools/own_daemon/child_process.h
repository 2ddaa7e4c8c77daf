// A child that cannot outlive its parent, and that is reaped without being waited for.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace croupier::tools {

struct ChildEnd {
    int exit_code = 0;
    int signal = 0;  // not 0: killed by it
};

class ChildProcess {
  public:
    ChildProcess() = default;
    // Both throw std::system_error. `body` runs in a forked child and gives its exit code; what it throws is
    // handed to `on_failure`.
    static ChildProcess run(const std::function<void()>& body,
                            const std::function<void(const std::string&)>& on_failure);
    // SIGTERM, not SIGKILL, when the parent dies: the daemon then removes its files.
    static ChildProcess execute(const std::vector<std::string>& arguments, const std::string& output_path);

    ChildProcess(ChildProcess&& other) noexcept;
    ChildProcess& operator=(ChildProcess&& other) noexcept;
    // Kills and reaps what still runs.
    ~ChildProcess();

    pid_t pid() const { return pid_; }
    bool running() const { return pid_ > 0; }
    void send(int signal) const;
    // How it ended, once; nothing while it runs or when it never did.
    std::optional<ChildEnd> poll();
    std::optional<ChildEnd> wait();

  private:
    explicit ChildProcess(pid_t pid) : pid_(pid) {}
    std::optional<ChildEnd> reap(int options);

    pid_t pid_ = 0;
};

}  // namespace croupier::tools

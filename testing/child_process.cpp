#include "testing/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <exception>
#include <system_error>
#include <utility>

namespace croupier::testing {
namespace {

constexpr int kCannotExecute = 127;

void die_with_parent(pid_t parent, int signal) {
    ::prctl(PR_SET_PDEATHSIG, signal);
    // The parent may have died between the fork and the line above.
    if (::getppid() != parent) ::_exit(1);
}

pid_t fork_or_throw() {
    const pid_t pid = ::fork();
    if (pid < 0) throw std::system_error(errno, std::generic_category(), "cannot fork");
    return pid;
}

}  // namespace

ChildProcess ChildProcess::start(const std::function<int()>& body) {
    const pid_t parent = ::getpid();
    const pid_t pid = fork_or_throw();
    if (pid > 0) return ChildProcess(pid);
    die_with_parent(parent, SIGKILL);
    ::_exit(body());
}

ChildProcess ChildProcess::run(const std::function<void()>& body,
                               const std::function<void(const std::string&)>& on_failure) {
    const pid_t parent = ::getpid();
    const pid_t pid = fork_or_throw();
    if (pid > 0) return ChildProcess(pid);
    die_with_parent(parent, SIGKILL);
    std::signal(SIGINT, SIG_IGN);  // Ctrl-C reaches the whole group; the orchestrator shuts the run down
    std::signal(SIGTERM, SIG_DFL);
    try {
        body();
    } catch (const std::exception& failure) {
        on_failure(failure.what());
        ::_exit(1);
    }
    // _exit(), because exit() would write the parent's buffered output again.
    ::_exit(0);
}

ChildProcess ChildProcess::execute(const std::vector<std::string>& arguments, const std::string& output_path,
                                   int death_signal) {
    std::vector<char*> pointers;
    pointers.reserve(arguments.size() + 1);
    for (const std::string& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
    pointers.push_back(nullptr);
    const pid_t parent = ::getpid();
    const pid_t pid = fork_or_throw();
    if (pid > 0) return ChildProcess(pid);
    die_with_parent(parent, death_signal);
    ::setpgid(0, 0);  // only the orchestrator gets Ctrl-C; it stops the daemon after the engine
    const int output = ::open(output_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (output >= 0) {
        ::dup2(output, STDOUT_FILENO);
        ::dup2(output, STDERR_FILENO);
    }
    ::execv(pointers.front(), pointers.data());
    ::_exit(kCannotExecute);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
    std::swap(pid_, other.pid_);
    return *this;
}

ChildProcess::~ChildProcess() {
    kill_and_reap();
}

void ChildProcess::send(int signal) const {
    if (running()) ::kill(pid_, signal);
}

void ChildProcess::kill_and_reap() {
    if (!running()) return;
    send(SIGKILL);
    wait();
}

std::optional<ChildEnd> ChildProcess::reap(int options) {
    if (!running()) return std::nullopt;
    int status = 0;
    pid_t ended = 0;
    do {
        ended = ::waitpid(pid_, &status, options);
    } while (ended < 0 && errno == EINTR && (options & WNOHANG) != 0);
    if (ended != pid_) return std::nullopt;
    pid_ = 0;
    if (WIFSIGNALED(status)) return ChildEnd{-1, WTERMSIG(status)};
    return ChildEnd{WEXITSTATUS(status), 0};
}

std::optional<ChildEnd> ChildProcess::poll() {
    return reap(WNOHANG);
}

int ChildProcess::wait() {
    std::optional<ChildEnd> end;
    while (running() && !end) end = reap(0);
    return end ? end->exit_code : -1;
}

bool ChildProcess::wait_until_stopped() const {
    int status = 0;
    return ::waitpid(pid_, &status, WUNTRACED) == pid_ && WIFSTOPPED(status);
}

}  // namespace croupier::testing

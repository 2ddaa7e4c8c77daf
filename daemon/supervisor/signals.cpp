#include "daemon/supervisor/signals.h"

#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace croupier::daemon {

shm::Result<shm::FileDescriptor> open_signals() {
    sigset_t wanted;
    ::sigemptyset(&wanted);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGCHLD}) ::sigaddset(&wanted, signal);
    ::pthread_sigmask(SIG_BLOCK, &wanted, nullptr);
    shm::FileDescriptor file(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!file.valid()) return shm::system_failure("cannot open", "signalfd", errno);
    return file;
}

std::vector<int> read_signals(const shm::FileDescriptor& signals) {
    std::vector<int> seen;
    signalfd_siginfo info{};
    while (::read(signals.get(), &info, sizeof(info)) == sizeof(info)) {
        seen.push_back(static_cast<int>(info.ssi_signo));
    }
    return seen;
}

bool is_stop(int signal) {
    return signal == SIGTERM || signal == SIGINT;
}

bool stop_is_pending() {
    sigset_t pending;
    ::sigpending(&pending);
    return ::sigismember(&pending, SIGTERM) == 1 || ::sigismember(&pending, SIGINT) == 1;
}

shm::Result<shm::FileDescriptor> open_timer(std::chrono::milliseconds period) {
    shm::FileDescriptor file(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    if (!file.valid()) return shm::system_failure("cannot open", "timerfd", errno);
    const timespec every{period.count() / 1000, period.count() % 1000 * 1'000'000};
    const itimerspec setting{every, every};
    if (::timerfd_settime(file.get(), 0, &setting, nullptr) != 0) {
        return shm::system_failure("cannot set", "timerfd", errno);
    }
    return file;
}

shm::Result<shm::FileDescriptor> open_inherited_event() {
    shm::FileDescriptor file(::eventfd(0, EFD_NONBLOCK));
    if (!file.valid()) return shm::system_failure("cannot open", "eventfd", errno);
    return file;
}

shm::Result<shm::FileDescriptor> open_event() {
    shm::FileDescriptor file(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!file.valid()) return shm::system_failure("cannot open", "eventfd", errno);
    return file;
}

void clear(const shm::FileDescriptor& counter) {
    std::uint64_t value = 0;
    [[maybe_unused]] const auto got = ::read(counter.get(), &value, sizeof(value));
}

}  // namespace croupier::daemon

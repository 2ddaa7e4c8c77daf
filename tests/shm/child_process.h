// Real processes for tests: forked, ended with the test, their exit code handed back.
#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>
#include <utility>

namespace croupier::shm {

class ChildProcess {
  public:
    // `body` runs in the child and returns its exit code. It must open its own segments: an inherited
    // descriptor shares its parent's locks.
    template <typename Body>
    static ChildProcess start(Body&& body) {
        const pid_t pid = ::fork();
        if (pid == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            ::_exit(body());
        }
        return ChildProcess(pid);
    }
    ChildProcess(ChildProcess&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
    ChildProcess& operator=(ChildProcess&& other) noexcept {
        std::swap(pid_, other.pid_);
        return *this;
    }
    ~ChildProcess() {
        if (pid_ > 0) kill_and_reap();
    }

    pid_t pid() const { return pid_; }
    void send(int signal) const { ::kill(pid_, signal); }
    void kill_and_reap() {
        send(SIGKILL);
        ::waitpid(pid_, nullptr, 0);
        pid_ = -1;
    }
    // The exit code; -1 when a signal ended it.
    int wait() {
        int status = 0;
        ::waitpid(std::exchange(pid_, -1), &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    // Returns when the child has stopped itself.
    bool wait_until_stopped() const {
        int status = 0;
        return ::waitpid(pid_, &status, WUNTRACED) == pid_ && WIFSTOPPED(status);
    }

  private:
    explicit ChildProcess(pid_t pid) : pid_(pid) {}
    pid_t pid_;
};

// An object that forked processes share.
template <typename T>
class Shared {
  public:
    Shared()
        : object_(new (::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
                      T{}) {}
    ~Shared() { ::munmap(object_, sizeof(T)); }
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;
    T* operator->() const { return object_; }
    T& operator*() const { return *object_; }

  private:
    T* object_;
};

}  // namespace croupier::shm

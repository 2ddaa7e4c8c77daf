#include "single_step.h"

#include <sched.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <limits>

#include "testing/child_process.h"

#if defined(__SANITIZE_THREAD__)
#define CROUPIER_THREAD_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CROUPIER_THREAD_SANITIZER
#endif
#endif

namespace croupier::shm {
namespace {

// About five seconds at the 20 microseconds that a step costs.
constexpr long kStepBudget = 250'000;

// Parent and child alternate strictly, so that one core serves both without a migration a step.
class OnOneCore {
  public:
    OnOneCore() {
        ::sched_getaffinity(0, sizeof(before_), &before_);
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);
        ::sched_setaffinity(0, sizeof(one), &one);
    }
    ~OnOneCore() { ::sched_setaffinity(0, sizeof(before_), &before_); }
    OnOneCore(const OnOneCore&) = delete;
    OnOneCore& operator=(const OnOneCore&) = delete;

  private:
    cpu_set_t before_{};
};

bool stopped_by(const testing::ChildProcess& child, int signal) {
    int status = 0;
    return ::waitpid(child.pid(), &status, 0) == child.pid() && WIFSTOPPED(status) &&
           WSTOPSIG(status) == signal;
}

}  // namespace

bool can_single_step() {
#if defined(CROUPIER_THREAD_SANITIZER)
    WARN("skipped: a build with ThreadSanitizer cannot be single-stepped");
    return false;
#else
    return true;
#endif
}

long die_after(long limit, const SteppedBody& body) {
    auto child = testing::ChildProcess::start([&] {
        ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
        body([] { ::raise(SIGSTOP); });
        return 1;
    });
    REQUIRE(stopped_by(child, SIGSTOP));
    long executed = 0;
    while (executed < limit) {
        REQUIRE(::ptrace(PTRACE_SINGLESTEP, child.pid(), nullptr, nullptr) == 0);
        if (!stopped_by(child, SIGTRAP)) break;
        ++executed;
    }
    child.kill_and_reap();
    return executed;
}

void die_everywhere(const SteppedBody& body, const std::function<void(long instructions)>& verify) {
    const OnOneCore one_core;
    const long whole = die_after(std::numeric_limits<long>::max(), body);
    verify(whole);
    const long stride = std::max(1L, whole * whole / (2 * kStepBudget));
    for (long instructions = 0; instructions < whole; instructions += stride) {
        die_after(instructions, body);
        verify(instructions);
    }
}

}  // namespace croupier::shm

#include "shm/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <ctime>

namespace croupier::shm {
namespace {

constexpr std::chrono::microseconds kPollPeriod{200};
static_assert(kMostFutexes == FUTEX_WAITV_MAX);

timespec to_timespec(std::chrono::nanoseconds time) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
    return {seconds.count(), (time - seconds).count()};
}

}  // namespace

void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t seen,
                std::chrono::nanoseconds timeout) {
    const timespec relative = to_timespec(timeout);
    // Not FUTEX_PRIVATE: the waker is another process.
    ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &relative, nullptr, 0);
}

void futex_wake_all(const std::atomic<std::uint32_t>& word) {
    ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void futex_wake_one(const std::atomic<std::uint32_t>& word) {
    ::syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void futex_wait_any(std::span<const FutexWord> words, std::chrono::nanoseconds timeout) {
    if (words.empty()) return;
    std::array<futex_waitv, kMostFutexes> waiters{};
    const std::size_t count = std::min(words.size(), waiters.size());
    for (std::size_t i = 0; i < count; ++i) {
        waiters[i].val = words[i].seen;
        waiters[i].uaddr = reinterpret_cast<std::uintptr_t>(words[i].word);
        waiters[i].flags = FUTEX_32;
    }
    // Its time-out is a point in time.
    const timespec until = to_timespec(std::chrono::steady_clock::now().time_since_epoch() + timeout);
    if (::syscall(SYS_futex_waitv, waiters.data(), count, 0, &until, CLOCK_MONOTONIC) >= 0) return;
    if (errno == ENOSYS || errno == EPERM)
        futex_wait(*words[0].word, words[0].seen, std::min<std::chrono::nanoseconds>(timeout, kPollPeriod));
}

}  // namespace croupier::shm

#include "shm/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace croupier::shm {

void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t seen,
                std::chrono::nanoseconds timeout) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
    const timespec relative{seconds.count(), (timeout - seconds).count()};
    // Not FUTEX_PRIVATE: the waker is another process.
    ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &relative, nullptr, 0);
}

void futex_wake_all(const std::atomic<std::uint32_t>& word) {
    ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace croupier::shm

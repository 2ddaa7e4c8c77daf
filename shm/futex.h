// Sleeping on words that several processes share.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace croupier::shm {

// Returns at once when the word is no longer `seen`; else on a wake, a signal or the time-out.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t seen, std::chrono::nanoseconds timeout);
void futex_wake_all(const std::atomic<std::uint32_t>& word);
void futex_wake_one(const std::atomic<std::uint32_t>& word);

struct FutexWord {
    const std::atomic<std::uint32_t>* word;
    std::uint32_t seen;
};
constexpr std::size_t kMostFutexes = 128;  // the kernel's FUTEX_WAITV_MAX
// Likewise, when any of the words changes. Where the kernel is older than 5.16, or a sandbox forbids
// futex_waitv, it returns after 0.2 ms at most: the caller polls.
void futex_wait_any(std::span<const FutexWord> words, std::chrono::nanoseconds timeout);

}  // namespace croupier::shm

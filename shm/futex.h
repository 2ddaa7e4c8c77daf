// Sleeping on a word that several processes share.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace croupier::shm {

// Returns at once when the word is no longer `seen`; else on a wake, a signal or the time-out.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t seen, std::chrono::nanoseconds timeout);
void futex_wake_all(const std::atomic<std::uint32_t>& word);

}  // namespace croupier::shm

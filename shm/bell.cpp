#include "shm/bell.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <iterator>

#include "proto/plane.h"
#include "shm/futex.h"

namespace croupier::shm {
namespace {

// The sessions' and the plane's.
constexpr std::size_t kMostBells = proto::kMaxSessions + 1;
static_assert(kMostBells <= kMostFutexes);

bool has_sleepers(const proto::Bell& bell) {
    return std::any_of(std::begin(bell.sleepers), std::end(bell.sleepers),
                       [](const auto& word) { return word.load(std::memory_order_seq_cst) != 0; });
}

// Returns whether a sampler may be asleep that has not seen this ring.
bool count_ring(proto::Bell& bell) {
    // SYNC: seq_cst on both words, here and in sleep_on(): either the sleeper sees the new count, or we see
    // its bit.
    bell.rung.fetch_add(1, std::memory_order_seq_cst);
    return has_sleepers(bell);
}

// Wakes the others if ring_for_one() has woken this sampler.
void pass_on(proto::Bell& bell) {
    if (bell.passed_on.load(std::memory_order_relaxed) == 0) return;
    if (bell.passed_on.exchange(0, std::memory_order_relaxed) == 0) return;
    if (has_sleepers(bell)) futex_wake_all(bell.rung);
}

}  // namespace

void ring(proto::Bell& bell) {
    if (count_ring(bell)) futex_wake_all(bell.rung);
}

void ring_for_one(proto::Bell& bell) {
    if (!count_ring(bell)) return;
    // SYNC: relaxed; a sampler that this wakes reads it in pass_on(), and the kernel's lock of the futex
    // orders the two.
    bell.passed_on.store(1, std::memory_order_relaxed);
    futex_wake_one(bell.rung);
}

HeardBell listen_to(proto::Bell& bell) {
    return {&bell, bell.rung.load(std::memory_order_acquire)};
}

void sleep_on(std::span<const HeardBell> bells, std::uint32_t sampler, std::chrono::nanoseconds timeout) {
    const std::uint64_t bit = 1ULL << (sampler % 64);
    std::array<FutexWord, kMostBells> words;
    std::size_t count = 0;
    for (const HeardBell& heard : bells.first(std::min(bells.size(), kMostBells))) {
        heard.bell->sleepers[sampler / 64].fetch_or(bit, std::memory_order_seq_cst);
        words[count++] = {&heard.bell->rung, heard.seen};
    }
    const auto waited = std::span(words).first(count);
    const bool quiet = std::all_of(waited.begin(), waited.end(), [](const FutexWord& word) {
        return word.word->load(std::memory_order_seq_cst) == word.seen;
    });
    if (quiet) futex_wait_any(waited, timeout);
    for (const HeardBell& heard : bells) {
        heard.bell->sleepers[sampler / 64].fetch_and(~bit, std::memory_order_relaxed);
        pass_on(*heard.bell);
    }
}

}  // namespace croupier::shm

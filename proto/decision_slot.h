// Who decides which column of a step, and what was decided.
#pragma once

#include <atomic>
#include <cstdint>

#include "proto/decision.h"

namespace croupier::proto {

// [step, low 32 bits][owner]. The step is part of the word, so that a sampler that comes late to a reused
// slot fails its compare-and-swap instead of claiming a column of another step.
struct ClaimWord {
    std::uint32_t step_tag = 0;
    std::uint32_t owner = 0;  // 0: free

    static constexpr ClaimWord unpack(std::uint64_t word) {
        return {static_cast<std::uint32_t>(word >> 32U), static_cast<std::uint32_t>(word)};
    }
    constexpr std::uint64_t pack() const { return static_cast<std::uint64_t>(step_tag) << 32U | owner; }
};

// [step, low 32 bits][DecisionError]: the whole record was malformed. Tagged as claims are: a sampler that
// comes late with its verdict must not refuse the next step in the slot.
struct RefusalWord {
    std::uint32_t step_tag = 0;
    std::uint32_t error = 0;  // 0: not refused

    static constexpr RefusalWord unpack(std::uint64_t word) {
        return {static_cast<std::uint32_t>(word >> 32U), static_cast<std::uint32_t>(word)};
    }
    constexpr std::uint64_t pack() const { return static_cast<std::uint64_t>(step_tag) << 32U | error; }
};

// Heads a slot; after it lie, each on its own cache lines: the committed bitmap (a bit a column), the
// claims, the crash counts, the decisions, and where the session has room for them a column's ranked
// log-probs: the drawn token's own, whose rank 0 says that none were asked for, then the best, up to one with
// token -1. All of a column is visible once its bit is set, and never changes.
struct alignas(64) DecisionSlotHead {
    std::atomic<std::uint64_t> step;      // which step's claims and bits these are
    std::atomic<std::uint64_t> refusal;   // a RefusalWord
    std::atomic<std::uint32_t> reopened;  // grows when claims of a dead sampler are freed
    std::atomic<std::uint64_t> logits_ready_ns;
    std::atomic<std::uint64_t> last_commit_ns;
};
static_assert(sizeof(DecisionSlotHead) == 64);

constexpr std::uint32_t bitmap_words(std::uint32_t columns) {
    return (columns + 63) / 64;
}

}  // namespace croupier::proto

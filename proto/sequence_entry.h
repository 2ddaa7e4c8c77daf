// A sequence: its parameters, and the token log that is the truth about it.
#pragma once

#include <atomic>
#include <cstdint>

#include "proto/sampling.h"

namespace croupier::proto {

enum class SequenceState : std::uint32_t { free = 0, live = 1 };

// After the entry lie its biases, its stop ids and its log (prompt, then output).
struct alignas(64) SequenceEntry {
    std::atomic<SequenceState> state;  // `live` is stored last, with release
    std::uint32_t prompt_length;
    std::atomic<std::uint32_t> length;  // prompt and output; grows with each committed decision
    std::uint32_t bias_count;
    std::uint32_t stop_count;
    std::uint32_t reserved;
    std::uint64_t uid;
    SamplingParams params;
};
static_assert(sizeof(SequenceEntry) == 256);

}  // namespace croupier::proto

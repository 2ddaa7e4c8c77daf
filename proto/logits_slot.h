// Readiness of a rank's slice in a step's slot: one word, so that one store publishes it (a GPU's too).
#pragma once

#include <atomic>
#include <cstdint>

namespace croupier::proto {

// [epoch:16][step + 1, low 28 bits][tiles landed:20]. Zero means not ready, for no writer's epoch is 0. The
// step's bits come round after 2^28 steps: the client clears a slot's words before it publishes the step
// (SchedulePublisher), so that each is of this step or of one that was still on its way.
struct ReadyWord {
    std::uint32_t epoch = 0;
    std::uint32_t step_tag = 0;
    std::uint32_t tiles = 0;

    static constexpr std::uint32_t kStepMask = (1U << 28U) - 1;
    static constexpr std::uint32_t kTileMask = (1U << 20U) - 1;

    // In place of tiles: a lean step is all there.
    static constexpr std::uint32_t kLean = kTileMask;

    static constexpr std::uint32_t tag_of(std::uint64_t step) {
        return static_cast<std::uint32_t>(step + 1) & kStepMask;
    }
    static constexpr ReadyWord unpack(std::uint64_t word) {
        return {static_cast<std::uint32_t>(word >> 48U), static_cast<std::uint32_t>(word >> 20U) & kStepMask,
                static_cast<std::uint32_t>(word) & kTileMask};
    }
    constexpr std::uint64_t pack() const {
        return static_cast<std::uint64_t>(epoch & 0xFFFFU) << 48U |
               static_cast<std::uint64_t>(step_tag & kStepMask) << 20U | (tiles & kTileMask);
    }
};

// Parts of a lean step that are told of before all of it is there.
constexpr std::uint32_t kLeanStamps = 6;

// One cache line a rank, so that writers on different cores do not share one.
struct alignas(64) ReadyCell {
    std::atomic<std::uint64_t> word;
    // By part (proto/lean_order.h): the word that the lean step will have, once the part's columns are there.
    std::atomic<std::uint64_t> stamps[kLeanStamps];
};
static_assert(sizeof(ReadyCell) == 64 && std::atomic<std::uint64_t>::is_always_lock_free);

// Randoms of one column: rng shvs takes the first for its first proposal; nobody reads the others.
struct ColumnRandoms {
    std::uint32_t stream[4];
};
static_assert(sizeof(ColumnRandoms) == 16);

}  // namespace croupier::proto

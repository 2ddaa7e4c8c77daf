// What samplers ask of a lean step's writers: a cell for each column, with a bit for each block of the row.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "proto/geometry.h"

namespace croupier::proto {

// [step + 1, low 28 bits][the ranks' epochs, added: 16][round: 20]. A block request of another step, or of
// writers that are gone, is no block request of this step's. A cell that is not asked in keeps its word, and
// the 28 bits come round: the cell also says its step in full.
struct RequestWord {
    std::uint32_t step_tag = 0;
    std::uint32_t epochs = 0;
    std::uint32_t round = 0;  // 0: nothing was asked for; odd: its bits are being written

    static constexpr std::uint32_t kRoundMask = (1U << 20U) - 1;

    static constexpr RequestWord unpack(std::uint64_t word) {
        return {static_cast<std::uint32_t>(word >> 36U), static_cast<std::uint32_t>(word >> 20U) & 0xFFFFU,
                static_cast<std::uint32_t>(word) & kRoundMask};
    }
    constexpr std::uint64_t pack() const {
        return static_cast<std::uint64_t>(step_tag) << 36U |
               static_cast<std::uint64_t>(epochs & 0xFFFFU) << 20U | (round & kRoundMask);
    }
    bool is_being_written() const { return round % 2 == 1; }
};

// Heads a slot: writers look at the cells only when it has grown.
struct alignas(64) RequestBoard {
    std::atomic<std::uint64_t> posted;
};
static_assert(sizeof(RequestBoard) == 64);

// After it lie a word for each rank, its answer, on lines of their own, and the bits: whole words, and whole
// lines. Who has the column's claim writes the bits and then the word; they stay as they are until the next
// round.
struct alignas(64) RequestCell {
    std::atomic<std::uint64_t> asked;
    // Whose block request it is. Stored behind a step's first word and read before it: no word of an earlier
    // step is taken for one of this step.
    std::atomic<std::uint64_t> step;
};
static_assert(sizeof(RequestCell) == 64);

struct RequestLayout {
    std::size_t answers = 0;
    std::size_t bits = 0;
    std::size_t words = 0;  // of the bits
    std::size_t stride = 0;
};
RequestLayout request_layout_of(const Geometry& geometry);

}  // namespace croupier::proto

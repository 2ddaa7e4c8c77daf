// What a lean step sends of each column: written by the host for each step, an argument of the kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "proto/race.h"

namespace croupier::gpu_writer {

constexpr std::uint32_t kSumAtOne = 1U << 0U;
constexpr std::uint32_t kSumAtScale = 1U << 1U;
// The column stands in the slice, whole; no block of it is sent beside.
constexpr std::uint32_t kWhole = 1U << 2U;
// The column is drawn where its row is, if that can be told; else its blocks are sent as without this.
constexpr std::uint32_t kDraw = 1U << 3U;
// At a temperature above 0: the best tokens of its race are sent in place of blocks by the race, which are
// opened where the row is.
constexpr std::uint32_t kSendRacers = 1U << 5U;
// With kSumAtScale: what each block weighs, if that leaves room for blocks.
constexpr std::uint32_t kWeighBlocks = 1U << 4U;
// The row's spread; then no block is weighed.
constexpr std::uint32_t kSumSpread = 1U << 6U;

struct LeanWant {
    proto::race::Key key;
    double scale = 1.0;        // above 0
    float temperature = 0.0F;  // 0: greedy, nothing races
    std::uint32_t flags = 0;
    // Blocks with the largest maxima, and blocks with the best bounds of the race: sent, or opened.
    std::uint32_t by_maximum = 0;
    std::uint32_t by_race = 0;
    // Of the blocks by maximum, none whose maximum is further than this below the largest.
    float reach = std::numeric_limits<float>::infinity();
    // Not 0: one more than the number of the step's mask that says which entries count (proto::kMasked).
    std::uint16_t mask_row = 0;
    // So many blocks that the request names by ids are sent whatever they hold (StepNames).
    std::uint16_t named = 0;
};
static_assert(sizeof(LeanWant) == 48);

// A step's grammar masks as the slot has them, over all ids. The address is the GPU's where a kernel reads
// them.
struct StepMasks {
    const std::uint32_t* words = nullptr;
    std::uint64_t row_words = 0;  // a multiple of a cache line's

    // Where the bits of one of the vocabulary's blocks stand; null: behind the row's end, where no entry is.
    constexpr const std::uint32_t* of_block(std::uint32_t mask_row, std::uint64_t block) const {
        constexpr std::uint64_t kWords = 2;
        if ((block + 1) * kWords > row_words) return nullptr;
        return words + (mask_row - 1) * row_words + block * kWords;
    }
};

// Which blocks of a step's columns are named, each once, counted from the rank's first one.
struct StepNames {
    const std::uint16_t* blocks = nullptr;  // [column][stride]; null: none is
    std::uint32_t stride = 0;

    constexpr const std::uint16_t* of(std::uint32_t column) const {
        return blocks == nullptr ? nullptr : blocks + std::size_t{column} * stride;
    }
};

}  // namespace croupier::gpu_writer

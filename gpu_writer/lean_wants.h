// What a lean step's kernels know of its columns beside their wants: grammar masks and named blocks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "request/lean_want.h"

namespace croupier::gpu_writer {

using request::LeanWant;
using request::Want;

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

// What a lean step's kernels know of its columns beside their wants: grammar masks and named ids.
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

// The ids that a step's columns name. Each list begins with the bytes of its proto::NamedValues.
struct StepNames {
    static constexpr std::uint32_t kHeadWords = 4;
    static constexpr std::uint32_t kLineWords = 16;
    static constexpr std::uint32_t kNoId = 0xFFFFFFFF;

    const std::uint32_t* lists = nullptr;

    // A list's, in whole cache lines, and so in whole stores of any data type's codes.
    static constexpr std::uint32_t words_of(std::uint32_t count) {
        constexpr std::uint32_t kTogether = 8;
        const std::uint32_t words = kHeadWords + (count + kTogether - 1) / kTogether * kTogether;
        return (words + kLineWords - 1) / kLineWords * kLineWords;
    }
    constexpr const std::uint32_t* of(const LeanWant& want) const {
        return lists + std::size_t{want.names_line} * kLineWords;
    }
};

}  // namespace croupier::gpu_writer

// A lean step's grammar masks: of masked columns, what is hidden counts as -inf.
#pragma once

#include <cfloat>

#include "gpu_writer/lean_kernels.h"
#include "gpu_writer/lean_rows.cuh"

namespace croupier::gpu_writer {

// Of a rank's part of a column, from its first block on.
struct ColumnMask {
    const std::uint64_t* words = nullptr;  // a block's bits each; null: all is allowed
    std::uint32_t blocks = 0;              // so many have a word; the others have no entry

    ColumnMask() = default;
    __device__ ColumnMask(const LeanRows& rows, std::uint32_t mask_row) {
        if (mask_row == 0) return;
        const std::uint64_t of_row = rows.masks.row_words / 2;
        words = reinterpret_cast<const std::uint64_t*>(rows.masks.words) + (mask_row - 1) * of_row +
                rows.first_block;
        blocks = of_row > rows.first_block ? static_cast<std::uint32_t>(of_row) - rows.first_block : 0;
    }

    __device__ bool hides() const { return words != nullptr; }
    // The bits of a block from its entry `first` on.
    __device__ std::uint64_t from(std::uint32_t block, std::uint32_t first) const {
        return block < blocks ? __ldg(words + block) >> first : 0;
    }
    template <proto::Dtype D>
    __device__ std::uint32_t of_unit(std::uint32_t block, std::uint32_t within) const {
        return static_cast<std::uint32_t>(from(block, within * Unit<D>::kElements));
    }
};

// Hides what the bits do not allow of a unit. One with a NaN or +inf stays as it is: these are an error
// wherever they stand, and the row's other entries are of no use then.
template <proto::Dtype D>
__device__ void hide_masked(Unit<D>& unit, std::uint32_t allowed) {
    using Code = typename Element<D>::Code;
    constexpr std::uint32_t kElements = Unit<D>::kElements;
    constexpr std::uint32_t kAll = (1U << kElements) - 1;
    if ((allowed & kAll) == kAll || !(unit.largest() <= FLT_MAX)) return;
#pragma unroll
    for (std::uint32_t i = 0; i < kElements; ++i) {
        if ((allowed >> i & 1U) == 0) unit.codes[i] = static_cast<Code>(minus_infinity(D));
    }
}

}  // namespace croupier::gpu_writer

// A lean step's grammar masks: of masked columns, what is hidden counts as -inf.
#pragma once

#include <cfloat>

#include "gpu_writer/device_words.cuh"
#include "gpu_writer/lean_kernels.h"
#include "gpu_writer/lean_rows.cuh"

namespace croupier::gpu_writer {

// The bits of one of the rank's blocks. They lie in the host's memory, where another process wrote them
// before this launch.
__device__ inline std::uint64_t allowed_in_block(const LeanRows& rows, std::uint32_t mask_row,
                                                 std::uint32_t block) {
    const std::uint32_t* bits = rows.masks.of_block(mask_row, std::uint64_t{rows.first_block} + block);
    return bits == nullptr ? 0 : load_now(reinterpret_cast<const std::uint64_t*>(bits));
}

// The same as they were kept in the GPU's memory where the row was measured.
struct ColumnMask {
    const std::uint64_t* of_blocks = nullptr;  // null: all is allowed

    __device__ std::uint64_t of_block(std::uint32_t block) const {
        return of_blocks == nullptr ? ~std::uint64_t{0} : __ldcg(of_blocks + block);
    }
};

// Hides what the bits of its block do not allow of a block's unit. A unit with a NaN or +inf stays as it is:
// these are an error wherever they stand, and the row's other entries are of no use then.
template <proto::Dtype D>
__device__ void hide_masked(Unit<D>& unit, std::uint64_t of_block, std::uint32_t within) {
    using Code = typename Element<D>::Code;
    constexpr std::uint32_t kElements = Unit<D>::kElements;
    const auto allowed = static_cast<std::uint32_t>(of_block >> (within * kElements));
    constexpr std::uint32_t kAll = (1U << kElements) - 1;
    if ((allowed & kAll) == kAll || !(unit.largest() <= FLT_MAX)) return;
#pragma unroll
    for (std::uint32_t i = 0; i < kElements; ++i) {
        if ((allowed >> i & 1U) == 0) unit.codes[i] = static_cast<Code>(minus_infinity(D));
    }
}

}  // namespace croupier::gpu_writer

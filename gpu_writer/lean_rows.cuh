// Rows as the kernels of a lean step read them: in whole blocks, in the order of their ids, under the grammar
// masks of their columns; and where blocks of them stand in the slice of a step of rows.
#pragma once

#include <cfloat>

#include "gpu_writer/lean_kernels.h"
#include "gpu_writer/slice_tiles.cuh"

namespace croupier::gpu_writer {

template <proto::Dtype D>
constexpr std::uint32_t kBlockUnits = proto::kBlockIds / Unit<D>::kElements;

__device__ inline SliceRows rows_in_order(const LeanRows& rows) {
    SliceRows in_order;
    in_order.logits = rows.logits;
    in_order.row_stride = rows.row_stride;
    in_order.dtype = rows.dtype;
    in_order.lead = rows.lead;
    in_order.entries = rows.entries;
    in_order.places = rows.blocks * proto::kBlockIds;
    return in_order;
}

// Moves the rows so that the column's own stands where it would if they were in the order of columns. False:
// the column has no row, and reads as one of nothing but -inf.
template <proto::Dtype D>
__device__ bool find_row(LeanRows& rows, std::uint32_t column) {
    if (rows.row_of == nullptr) return true;
    // Not by the read-only way: a kernel that answers requests may have begun before it was stored.
    const std::int32_t row = __ldcg(rows.row_of + column);
    if (!is_row(row, rows.row_end)) {
        rows.entries = 0;
        return false;
    }
    const std::int64_t away = std::int64_t{row} - std::int64_t{column};
    const auto element = static_cast<std::int64_t>(sizeof(typename Element<D>::Code));
    rows.logits = reinterpret_cast<const void*>(reinterpret_cast<std::intptr_t>(rows.logits) +
                                                away * static_cast<std::int64_t>(rows.row_stride) * element);
    return true;
}

// Reads `count` of a column's blocks, block_of(i) each, with all threads of a CUDA block, and calls
// put(i, unit's number within the block, unit).
template <proto::Dtype D, std::uint32_t kThreads, typename BlockOf, typename Put>
__device__ void copy_blocks(const RowReader<D>& reader, std::uint32_t column, std::uint32_t count,
                            BlockOf block_of, Put put) {
    const std::uint32_t end = count * kBlockUnits<D>;
    for (std::uint32_t base = threadIdx.x; base < end; base += kThreads * kUnitsInFlight) {
        Unit<D> units[kUnitsInFlight];
#pragma unroll
        for (std::uint32_t i = 0; i < kUnitsInFlight; ++i) {
            const std::uint32_t at = base + i * kThreads;
            if (at >= end) break;
            units[i] = reader.unit(column, block_of(at / kBlockUnits<D>) * proto::kBlockIds +
                                               at % kBlockUnits<D> * Unit<D>::kElements);
        }
#pragma unroll
        for (std::uint32_t i = 0; i < kUnitsInFlight; ++i) {
            const std::uint32_t at = base + i * kThreads;
            if (at < end) put(at / kBlockUnits<D>, at % kBlockUnits<D>, units[i]);
        }
    }
}

// A grammar mask: what it hides counts as -inf. Of a rank's part of a column, from its first block on.
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

// Where a step of rows has it.
template <proto::Dtype D>
__device__ void store_in_slice(const LeanSlice& slice, std::uint32_t place, std::uint32_t block,
                               std::uint32_t within, const Unit<D>& unit) {
    const std::uint64_t first = (std::uint64_t{block} * slice.places + place) * kBlockUnits<D>;
    unit.store(reinterpret_cast<void*>(slice.elements), first + within);
}

}  // namespace croupier::gpu_writer

// Rows as the kernels of a lean step read them: in whole blocks, in the order of their ids.
#pragma once

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

}  // namespace croupier::gpu_writer

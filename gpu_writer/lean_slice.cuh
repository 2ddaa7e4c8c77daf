// Stores blocks of a lean step's columns where a step of rows has them.
#pragma once

#include "gpu_writer/lean_kernels.h"
#include "gpu_writer/lean_rows.cuh"

namespace croupier::gpu_writer {

template <proto::Dtype D>
__device__ void store_in_slice(const LeanSlice& slice, std::uint32_t column, std::uint32_t block,
                               std::uint32_t within, const Unit<D>& unit) {
    constexpr std::uint32_t kUnits = proto::kBlockIds / Unit<D>::kElements;
    const std::uint64_t first = (std::uint64_t{block} * slice.columns + column) * kUnits;
    unit.store(reinterpret_cast<void*>(slice.elements), first + within);
}

}  // namespace croupier::gpu_writer

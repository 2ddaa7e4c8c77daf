// Stores blocks of a lean step's columns where a step of rows has them.
#pragma once

#include "gpu_writer/lean_kernels.h"
#include "gpu_writer/lean_rows.cuh"

namespace croupier::gpu_writer {

template <proto::Dtype D>
__device__ void store_in_slice(const LeanSlice& slice, std::uint32_t column, std::uint32_t block,
                               std::uint32_t within, const Unit<D>& unit) {
    using Code = typename Element<D>::Code;
    constexpr std::uint32_t kElements = Unit<D>::kElements;
    const std::uint32_t first = block * proto::kBlockIds + within * kElements;
    const auto at = [&](std::uint32_t place) {
        return (std::uint64_t{place / slice.tile} * slice.columns + column) * slice.tile + place % slice.tile;
    };
    const std::uint32_t end = slice.tiles * slice.tile;
    if (slice.tile % kElements == 0) {
        if (first < end) unit.store(reinterpret_cast<void*>(slice.elements), at(first) / kElements);
        return;
    }
    auto* elements = reinterpret_cast<Code*>(slice.elements);
#pragma unroll
    for (std::uint32_t i = 0; i < kElements; ++i) {
        if (first + i < end) elements[at(first + i)] = unit.codes[i];
    }
}

__device__ inline std::uint32_t place_of(const LeanSlice& slice, std::uint32_t block) {
    return slice.place_of_block == nullptr ? block : __ldg(slice.place_of_block + block);
}

}  // namespace croupier::gpu_writer

// Lays rows into tiles with all threads of a block, 16 bytes a store.
#pragma once

#include <cuda_fp16.h>

#include "gpu_writer/device_only.cuh"
#include "gpu_writer/slice_kernels.h"
#include "gpu_writer/tile_layout.h"

namespace croupier::gpu_writer {

// Few blocks have to keep a PCIe link full: loads of these many units are in flight in each thread.
constexpr std::uint32_t kBlockThreads = 512;
constexpr std::uint32_t kUnitsInFlight = 4;

// Kernel<D>::launch(arguments...)
template <template <proto::Dtype> typename Kernel, typename... Arguments>
void launch_of(proto::Dtype dtype, Arguments... arguments) {
    switch (dtype) {
        case proto::Dtype::bf16:
            return Kernel<proto::Dtype::bf16>::launch(arguments...);
        case proto::Dtype::fp16:
            return Kernel<proto::Dtype::fp16>::launch(arguments...);
        case proto::Dtype::fp32:
            return Kernel<proto::Dtype::fp32>::launch(arguments...);
    }
}

// Unless an earlier one failed. CUDA loads a kernel late otherwise, at its first launch, and waits for the
// GPU.
template <typename Kernel>
void load(Kernel kernel, cudaError_t& status) {
    cudaFuncAttributes attributes;
    if (status == cudaSuccess) status = cudaFuncGetAttributes(&attributes, kernel);
}

template <proto::Dtype>
struct Element {
    using Code = std::uint16_t;
};
template <>
struct Element<proto::Dtype::fp32> {
    using Code = std::uint32_t;
};

template <proto::Dtype D>
__device__ float value_of(typename Element<D>::Code code) {
    if constexpr (D == proto::Dtype::bf16) return __uint_as_float(std::uint32_t{code} << 16U);
    if constexpr (D == proto::Dtype::fp16) return __half2float(__ushort_as_half(code));
    if constexpr (D == proto::Dtype::fp32) return __uint_as_float(code);
}

template <proto::Dtype D>
struct alignas(16) Unit {
    using Code = typename Element<D>::Code;
    static constexpr std::uint32_t kElements = 16 / sizeof(Code);

    Code codes[kElements];

    __device__ float largest() const {
        float most = value_of<D>(codes[0]);
#pragma unroll
        for (std::uint32_t i = 1; i < kElements; ++i) most = larger(most, value_of<D>(codes[i]));
        return most;
    }
    __device__ void store(void* slice, std::uint64_t unit) const {
        static_cast<uint4*>(slice)[unit] = *reinterpret_cast<const uint4*>(codes);
    }
};

template <proto::Dtype D>
struct RowReader {
    using Code = typename Element<D>::Code;
    static constexpr auto kPadding = static_cast<Code>(minus_infinity(D));

    const SliceRows& rows;
    bool whole;  // units may be read as they stand

    __device__ explicit RowReader(const SliceRows& of)
        : rows(of),
          whole((reinterpret_cast<std::uintptr_t>(of.logits) - of.lead * sizeof(Code)) % 16 == 0 &&
                of.row_stride * sizeof(Code) % 16 == 0) {}

    __device__ const Code* row(std::uint32_t column) const {
        return static_cast<const Code*>(rows.logits) + column * rows.row_stride;
    }
    // Which of the row's elements stands at a place of the slice; what stands nowhere in the row, before its
    // first element too, is none of its entries.
    __device__ std::uint32_t entry_at(std::uint32_t place) const {
        if (place >= rows.places) return rows.entries;
        if (rows.order == nullptr) return place - rows.lead;
        const std::uint32_t block = __ldg(rows.order + place / proto::kBlockIds);
        return block * proto::kBlockIds + place % proto::kBlockIds - rows.lead;
    }
    __device__ Code code(std::uint32_t column, std::uint32_t entry) const {
        return entry < rows.entries ? __ldg(row(column) + entry) : kPadding;
    }
    __device__ Code at(std::uint32_t column, std::uint32_t place) const {
        return code(column, entry_at(place));
    }
    // A unit that begins at a multiple of its size lies in one block.
    __device__ Unit<D> unit(std::uint32_t column, std::uint32_t place) const {
        Unit<D> unit;
        const std::uint32_t first = entry_at(place);
        // Not first + kElements: what lies before the row is a number near the largest.
        if (whole && first < rows.entries && rows.entries - first >= Unit<D>::kElements) {
            *reinterpret_cast<uint4*>(unit.codes) =
                __ldg(reinterpret_cast<const uint4*>(row(column) + first));
            return unit;
        }
#pragma unroll
        for (std::uint32_t i = 0; i < Unit<D>::kElements; ++i) {
            unit.codes[i] = code(column, first + i);
        }
        return unit;
    }
};

// The same by column, where a column's row may be another, or none: that reads as nothing but -inf.
template <proto::Dtype D, bool kGathers>
struct ColumnReader {
    using Code = typename Element<D>::Code;

    RowReader<D> reader;

    __device__ explicit ColumnReader(const SliceRows& of) : reader(of) {}

    __device__ Unit<D> unit(std::uint32_t column, std::uint32_t place) const {
        if constexpr (kGathers) {
            const std::int32_t row = __ldg(reader.rows.row_of + column);
            if (row < 0) return reader.unit(0, reader.rows.places);
            return reader.unit(static_cast<std::uint32_t>(row), place);
        }
        return reader.unit(column, place);
    }
    __device__ Code at(std::uint32_t column, std::uint32_t place) const {
        if constexpr (kGathers) {
            const std::int32_t row = __ldg(reader.rows.row_of + column);
            if (row < 0) return RowReader<D>::kPadding;
            return reader.at(static_cast<std::uint32_t>(row), place);
        }
        return reader.at(column, place);
    }
};

// Whether each unit is of one tile of one column, and those of a tile are neighbours in one warp.
template <proto::Dtype D>
__host__ __device__ bool tiles_are_units(std::uint32_t tile) {
    const std::uint32_t lanes = tile / Unit<D>::kElements;
    return tile % Unit<D>::kElements == 0 && lanes <= 32 && (lanes & (lanes - 1)) == 0;
}

// Of so many pairs of tile and column, from `first` on. Neighbouring threads have one column's neighbouring
// tiles: where the segment is stored to, their floats cross the link together.
__device__ inline void keep_maxima(const SliceTarget& target, std::uint32_t first, const float* maxima,
                                   std::uint32_t count) {
    const std::uint32_t first_tile = first / target.columns;
    const std::uint32_t tiles = (first + count - 1) / target.columns + 1 - first_tile;
    for (std::uint32_t i = threadIdx.x; i < tiles * target.columns; i += kBlockThreads) {
        const std::uint32_t column = i / tiles;
        const std::uint32_t tile = first_tile + i % tiles;
        const std::uint32_t pair = tile * target.columns + column - first;
        if (pair < count) target.maxima[std::uint64_t{column} * target.maxima_stride + tile] = maxima[pair];
    }
}

template <proto::Dtype D, bool kGathers>
__device__ void lay_units(const SliceRows& rows, const SliceTarget& target, TileRange tiles) {
    // Gathered here first: each warp's few floats would cross the link in packets that are mostly header.
    __shared__ float maxima[kBlockThreads * kUnitsInFlight];
    const ColumnReader<D, kGathers> reader(rows);
    const std::uint32_t lanes = rows.tile / Unit<D>::kElements;
    const auto shift = static_cast<std::uint32_t>(__ffs(static_cast<int>(lanes)) - 1);
    const std::uint32_t end = tiles.end * target.columns * lanes;
    constexpr std::uint32_t kRound = kBlockThreads * kUnitsInFlight;
    for (std::uint32_t base = tiles.first * target.columns * lanes; base < end; base += kRound) {
        Unit<D> units[kUnitsInFlight];
#pragma unroll
        for (std::uint32_t i = 0; i < kUnitsInFlight; ++i) {
            const std::uint32_t at = base + i * kBlockThreads + threadIdx.x;
            const std::uint32_t pair = at >> shift;
            const std::uint32_t tile = pair / target.columns;
            // Past the end it reads padding: all lanes take part in the shuffles below.
            units[i] = reader.unit(pair - tile * target.columns,
                                   tile * rows.tile + (at & (lanes - 1)) * Unit<D>::kElements);
        }
#pragma unroll
        for (std::uint32_t i = 0; i < kUnitsInFlight; ++i) {
            const std::uint32_t within = i * kBlockThreads + threadIdx.x;
            if (base + within < end) units[i].store(target.elements, base + within);
            if (target.maxima == nullptr) continue;
            float most = units[i].largest();
            for (std::uint32_t apart = lanes / 2; apart > 0; apart /= 2) {
                most = larger(most, __shfl_xor_sync(0xFFFFFFFFU, most, static_cast<int>(apart)));
            }
            if ((within & (lanes - 1)) == 0) maxima[within >> shift] = most;
        }
        if (target.maxima == nullptr) continue;
        __syncthreads();
        keep_maxima(target, base >> shift, maxima, min(end - base, kRound) >> shift);
        __syncthreads();
    }
}

// For any tile: units cross the borders of tiles and columns.
template <proto::Dtype D, bool kGathers>
__device__ void lay_elements(const SliceRows& rows, const SliceTarget& target, TileRange tiles) {
    using Code = typename Element<D>::Code;
    constexpr std::uint32_t kElements = Unit<D>::kElements;
    const ColumnReader<D, kGathers> reader(rows);
    const std::uint64_t tile_row = std::uint64_t{target.columns} * rows.tile;
    const std::uint64_t end = tiles.end * tile_row;
    for (std::uint64_t at = tiles.first * tile_row + threadIdx.x * kElements; at < end;
         at += kBlockThreads * kElements) {
        auto tile = static_cast<std::uint32_t>(at / tile_row);
        const auto in_row = static_cast<std::uint32_t>(at - tile * tile_row);
        std::uint32_t column = in_row / rows.tile;
        std::uint32_t within = in_row - column * rows.tile;
        Unit<D> unit;
#pragma unroll
        for (std::uint32_t i = 0; i < kElements; ++i) {
            // Past the last tile it reads padding.
            unit.codes[i] = reader.at(column, tile * rows.tile + within);
            if (++within < rows.tile) continue;
            within = 0;
            if (++column < target.columns) continue;
            column = 0;
            ++tile;
        }
        if (at + kElements <= end) {
            unit.store(target.elements, at / kElements);
            continue;
        }
#pragma unroll
        for (std::uint32_t i = 0; i < kElements; ++i) {
            if (at + i < end) static_cast<Code*>(target.elements)[at + i] = unit.codes[i];
        }
    }
}

template <proto::Dtype D, bool kGathers>
__device__ void lay_maxima(const SliceRows& rows, const SliceTarget& target, TileRange tiles) {
    const ColumnReader<D, kGathers> reader(rows);
    const std::uint32_t end = tiles.end * target.columns;
    for (std::uint32_t pair = tiles.first * target.columns + threadIdx.x; pair < end; pair += kBlockThreads) {
        const std::uint32_t tile = pair / target.columns;
        const std::uint32_t column = pair - tile * target.columns;
        float most = value_of<D>(reader.at(column, tile * rows.tile));
        for (std::uint32_t i = 1; i < rows.tile; ++i) {
            most = larger(most, value_of<D>(reader.at(column, tile * rows.tile + i)));
        }
        target.maxima[std::uint64_t{column} * target.maxima_stride + tile] = most;
    }
}

// `tiles` begins at a multiple of tile_granule().
template <proto::Dtype D, bool kGathers>
__device__ void lay_tiles(const SliceRows& rows, const SliceTarget& target, TileRange tiles) {
    if (tiles_are_units<D>(rows.tile)) return lay_units<D, kGathers>(rows, target, tiles);
    lay_elements<D, kGathers>(rows, target, tiles);
    if (target.maxima != nullptr) lay_maxima<D, kGathers>(rows, target, tiles);
}

}  // namespace croupier::gpu_writer

// Launches one shape of tiles.
#pragma once

#include <algorithm>

#include "gpu_writer/head_product.h"
#include "gpu_writer/head_tiles.cuh"

namespace croupier::gpu_writer::head {

// Rows of so many elements, `stride` apart, in boxes of so many rows and kStepElements. What is outside of
// them is read as zeros. No call to the GPU.
struct MappedRows {
    const void* first;
    std::uint64_t stride;
    std::uint32_t elements;
    std::uint32_t rows;
};
cudaError_t map_rows(CUtensorMap& map, Dtype dtype, const MappedRows& rows, std::uint32_t box_rows);

inline HeadWork work_of(const HeadProduct& product, std::uint32_t tile_rows, std::uint32_t tile_columns) {
    HeadWork work{};
    work.steps = (product.elements + kStepElements - 1) / kStepElements;
    work.entries = product.entries;
    work.columns = product.columns;
    work.row_tiles = (product.lead + product.entries + tile_rows - 1) / tile_rows;
    work.column_tiles = (product.columns + tile_columns - 1) / tile_columns;
    work.lead = product.lead;
    work.first_block = product.first_block;
    work.wants = product.wants;
    work.targets = {product.maxima,      product.maxima_stride, product.sums,
                    product.sums_stride, product.floors,        product.logits_stride};
    work.logits = product.logits;
    work.found_columns = product.found_columns;
    return work;
}

// Of the present device.
inline std::uint32_t multiprocessors() {
    int device = 0;
    int count = 0;
    (void)cudaGetDevice(&device);
    (void)cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
    return static_cast<std::uint32_t>(count);
}

template <Dtype D, class T>
cudaError_t launch_as(const HeadProduct& product, cudaStream_t stream) {
    CUtensorMap head;
    CUtensorMap hidden;
    cudaError_t status = map_rows(
        head, D, {product.weight, product.weight_stride, product.elements, product.entries}, T::kRows);
    if (status != cudaSuccess) return status;
    status = map_rows(hidden, D, {product.hidden, product.hidden_stride, product.elements, product.columns},
                      T::kColumns);
    if (status != cudaSuccess) return status;
    const HeadWork work = work_of(product, T::kRows, T::kColumns);
    cudaLaunchConfig_t config{};
    config.gridDim = std::min(multiprocessors(), work.row_tiles * work.column_tiles);
    config.blockDim = T::kThreads;
    config.dynamicSmemBytes = T::kSharedBytes;
    config.stream = stream;
    status = cudaLaunchKernelEx(&config, fused_head<D, T>, head, hidden, work);
    // Else the next launch of another kernel would report it as its own.
    if (status != cudaSuccess) (void)cudaGetLastError();
    return status;
}

template <Dtype D, class T>
cudaError_t load_as() {
    return cudaFuncSetAttribute(fused_head<D, T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                T::kSharedBytes);
}

template <class T>
cudaError_t launch_tiles(const HeadProduct& product, cudaStream_t stream) {
    if (product.dtype == Dtype::bf16) return launch_as<Dtype::bf16, T>(product, stream);
    if (product.dtype == Dtype::fp16) return launch_as<Dtype::fp16, T>(product, stream);
    return cudaErrorInvalidValue;
}

template <class T>
cudaError_t load_tiles(Dtype dtype) {
    if (dtype == Dtype::bf16) return load_as<Dtype::bf16, T>();
    if (dtype == Dtype::fp16) return load_as<Dtype::fp16, T>();
    return cudaErrorInvalidValue;
}

template <std::uint32_t kColumns, std::uint32_t kBlocks, std::uint32_t kStages>
constexpr HeadTiles tiles_of(const char* name) {
    using T = Tile<kColumns, kBlocks, kStages>;
    return {name, kColumns, T::kKnowsWants, load_tiles<T>, launch_tiles<T>};
}

// Each is compiled by itself: a shape takes long.
extern const HeadTiles kTiles8;
extern const HeadTiles kTiles16;
extern const HeadTiles kTiles32;
extern const HeadTiles kTiles64;
extern const HeadTiles kTiles96;
extern const HeadTiles kTiles128;
extern const HeadTiles kTallTiles128;

}  // namespace croupier::gpu_writer::head

// Launches one tile shape of the fused kernel.
#pragma once

#include <algorithm>

#include "bench/head/fused_head.cuh"
#include "bench/head/head_product.h"

namespace croupier::head {

// A row-major matrix of rows of `elements`, in boxes of so many rows and kStepElements. What is outside of it
// is read as zeros.
cudaError_t map_matrix(CUtensorMap& map, Dtype dtype, const void* matrix, std::uint32_t elements,
                       std::uint32_t rows, std::uint32_t box_rows);

inline HeadWork work_of(const HeadCall& call, std::uint32_t tile_rows, std::uint32_t tile_columns) {
    HeadWork work{};
    work.steps = (call.elements + kStepElements - 1) / kStepElements;
    work.entries = call.entries;
    work.columns = call.columns;
    work.row_tiles = (call.lead + call.entries + tile_rows - 1) / tile_rows;
    work.column_tiles = (call.columns + tile_columns - 1) / tile_columns;
    static_assert(sizeof(HeadSums) == sizeof(BlockSums));
    work.targets = {call.best,
                    reinterpret_cast<BlockSums*>(call.sums),
                    reinterpret_cast<const ColumnScales*>(call.scales),
                    call.block_stride,
                    call.logits,
                    call.logits_stride,
                    call.lead};
    return work;
}

template <Dtype D, class T>
cudaError_t launch_as(const HeadCall& call, cudaStream_t stream) {
    static const int multiprocessors = [] {
        (void)cudaFuncSetAttribute(fused_head<D, T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   T::kSharedBytes);
        int device = 0;
        int count = 0;
        (void)cudaGetDevice(&device);
        (void)cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
        return count;
    }();
    CUtensorMap head;
    CUtensorMap hidden;
    cudaError_t status = map_matrix(head, D, call.head, call.elements, call.entries, T::kRows);
    if (status != cudaSuccess) return status;
    status = map_matrix(hidden, D, call.hidden, call.elements, call.columns, T::kColumns / T::kCluster);
    if (status != cudaSuccess) return status;
    const HeadWork work = work_of(call, T::kRows * T::kCluster, T::kColumns);
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {T::kCluster, 1, 1};
    const std::uint32_t clusters = std::min(static_cast<std::uint32_t>(multiprocessors) / T::kCluster,
                                            work.row_tiles * work.column_tiles);
    cudaLaunchConfig_t config{};
    config.gridDim = clusters * T::kCluster;
    config.blockDim = T::kThreads;
    config.dynamicSmemBytes = T::kSharedBytes;
    config.stream = stream;
    config.attrs = &cluster;
    config.numAttrs = T::kCluster > 1 ? 1 : 0;
    status = cudaLaunchKernelEx(&config, fused_head<D, T>, head, hidden, work);
    return status != cudaSuccess ? status : cudaGetLastError();
}

template <class T>
cudaError_t launch_tile(const HeadCall& call, cudaStream_t stream) {
    if (call.dtype == Dtype::bf16) return launch_as<Dtype::bf16, T>(call, stream);
    if (call.dtype == Dtype::fp16) return launch_as<Dtype::fp16, T>(call, stream);
    return cudaErrorInvalidValue;
}

}  // namespace croupier::head

#include <algorithm>

#include "gpu_writer/lean_replay.h"
#include "gpu_writer/lean_rows.cuh"

namespace croupier::gpu_writer {
namespace {

using proto::Dtype;

constexpr std::uint32_t kWholeThreads = 256;
// CUDA blocks that share a column.
constexpr std::uint32_t kWholeParts = 16;
// They are the kernel's argument: host memory would be read a few words at a time.
constexpr std::uint32_t kMostTogether = 64;
// Most steps have none, and theirs are launched all the same where a replay has to find them.
constexpr std::uint32_t kFoundTogether = 8;

struct WholeColumns {
    WholeColumn each[kMostTogether];
};

// One of the CUDA blocks that share a column.
template <Dtype D>
__device__ void lay_part(const RowReader<D>& reader, const LeanSlice& slice, std::uint32_t rank_blocks,
                         const WholeColumn& whole) {
    if (blockIdx.x >= rank_blocks) return;
    const std::uint32_t own = (rank_blocks - blockIdx.x + gridDim.x - 1) / gridDim.x;
    const auto block_of = [&](std::uint32_t i) { return blockIdx.x + i * gridDim.x; };
    copy_blocks<D, kWholeThreads>(reader, whole.column, own, block_of,
                                  [&](std::uint32_t i, std::uint32_t within, const Unit<D>& unit) {
                                      store_in_slice(slice, whole.place, block_of(i), within, unit);
                                  });
}

template <Dtype D>
__global__ void __launch_bounds__(kWholeThreads)
    lay_whole(LeanRows rows, LeanSlice slice, const __grid_constant__ WholeColumns columns) {
    const SliceRows in_order = rows_in_order(rows);
    lay_part(RowReader<D>(in_order), slice, rows.blocks, columns.each[blockIdx.y]);
}

// Of a step that a replay has found: how many they are, the launch does not know.
template <Dtype D>
__global__ void __launch_bounds__(kWholeThreads) lay_found(LeanRows rows, FoundStep step) {
    if (step.record->slice.columns == 0) return;
    const LeanSlice slice = step.record->slice;
    for (std::uint32_t i = blockIdx.y; i < step.counts[kFoundWhole]; i += gridDim.y) {
        LeanRows own = rows;
        const std::uint32_t column = step.whole[i];
        if (!find_row<D>(own, column) && step.record->windows != 0) continue;
        const SliceRows in_order = rows_in_order(own);
        lay_part(RowReader<D>(in_order), slice, rows.blocks, {column, step.wants[column].place});
    }
}

template <Dtype D>
struct LayingWhole {
    static void launch(const LeanRows& rows, const LeanSlice& slice, std::span<const WholeColumn> columns,
                       cudaStream_t stream) {
        WholeColumns together;
        std::copy(columns.begin(), columns.end(), together.each);
        cudaLaunchConfig_t config{};
        config.gridDim = {kWholeParts, static_cast<std::uint32_t>(columns.size()), 1};
        config.blockDim = kWholeThreads;
        config.stream = stream;
        (void)cudaLaunchKernelEx(&config, lay_whole<D>, rows, slice, together);
    }
};

template <Dtype D>
struct LayingFound {
    static void launch(const LeanRows& rows, const FoundStep& step, cudaStream_t stream) {
        cudaLaunchConfig_t config{};
        config.gridDim = {kWholeParts, kFoundTogether, 1};
        config.blockDim = kWholeThreads;
        config.stream = stream;
        (void)cudaLaunchKernelEx(&config, lay_found<D>, rows, step);
    }
};

template <Dtype D>
struct Loading {
    static void launch(cudaError_t* status) {
        load(lay_whole<D>, *status);
        load(lay_found<D>, *status);
    }
};

}  // namespace

cudaError_t load_whole_columns_kernels(Dtype dtype) {
    cudaError_t status = cudaSuccess;
    launch_of<Loading>(dtype, &status);
    return status;
}

cudaError_t launch_whole_columns(const LeanRows& rows, const LeanSlice& slice,
                                 std::span<const WholeColumn> columns, cudaStream_t stream) {
    // Another's error would be reported as this launch's.
    if (columns.empty()) return cudaSuccess;
    while (!columns.empty()) {
        const auto some = columns.first(std::min<std::size_t>(kMostTogether, columns.size()));
        launch_of<LayingWhole>(rows.dtype, rows, slice, some, stream);
        columns = columns.subspan(some.size());
    }
    return cudaGetLastError();
}

cudaError_t launch_found_whole_columns(const LeanRows& rows, const FoundStep& step, cudaStream_t stream) {
    launch_of<LayingFound>(rows.dtype, rows, step, stream);
    return cudaGetLastError();
}

}  // namespace croupier::gpu_writer

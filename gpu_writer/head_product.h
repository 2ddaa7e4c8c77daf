// The product of hidden states and a rank's part of the LM head on Hopper, as plain calls that enqueue and
// never wait. Beside the logits it leaves what a lean step measures of them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "proto/dtype.h"

namespace croupier::gpu_writer::head {

constexpr std::uint32_t kBlockRows = 64;  // of the head: the ids of a block

// Of a block's logits x, 2^((x - largest) * scale) summed, for two scales.
struct BlockSums {
    float at_one;
    float at_scale;
};
using ColumnScales = BlockSums;

// Where the logits go of a step that only the GPU knows. A step without columns is none: nothing is computed.
struct FoundLogits {
    std::byte* const* rows = nullptr;  // null: the step is known
    const std::uint32_t* columns = nullptr;
    std::uint64_t skipped = 0;  // elements before the first row
};

// Hidden states [columns][elements] times the rank's rows of the head [entries][elements]; addresses are the
// device's. Strides are of elements, from row to row. Rows are read sixteen bytes at a time: both matrices
// begin at multiples of that, and `elements` and their strides are multiples of eight.
struct HeadProduct {
    proto::Dtype dtype = proto::Dtype::bf16;  // of all three matrices; not fp32
    const void* hidden = nullptr;
    std::uint64_t hidden_stride = 0;
    const void* weight = nullptr;
    std::uint64_t weight_stride = 0;
    std::uint32_t columns = 0;
    std::uint32_t elements = 0;
    std::uint32_t entries = 0;
    std::uint32_t lead = 0;           // ids of the first block that belong to another rank
    std::uint16_t* logits = nullptr;  // [column][entry]; null: not wanted, unless `found` says where
    std::uint64_t logits_stride = 0;
    FoundLogits found = {};
    // [column][block]: the code of the block's largest logit, as lean parts have it (one zero, one NaN);
    // null: not wanted.
    std::uint16_t* maxima = nullptr;
    std::uint64_t maxima_stride = 0;
    BlockSums* sums = nullptr;  // likewise
    std::uint64_t sums_stride = 0;
    const ColumnScales* scales = nullptr;  // of each column

    constexpr std::uint32_t blocks() const { return (lead + entries + kBlockRows - 1) / kBlockRows; }
};

// One shape of tiles. All have equal results.
struct HeadTiles {
    const char* name;
    std::uint32_t columns;  // that one tile takes
    cudaError_t (*load)(proto::Dtype dtype);
    cudaError_t (*launch)(const HeadProduct& product, cudaStream_t stream);
};
// From narrow to wide.
std::span<const HeadTiles> head_tiles();

// cudaErrorNoKernelImageForDevice where the present GPU is not Hopper. Before the first launch: CUDA loads
// kernels late otherwise, and waits for the GPU then.
cudaError_t load_head_kernels(proto::Dtype dtype);
cudaError_t launch_head(const HeadProduct& product, cudaStream_t stream);

}  // namespace croupier::gpu_writer::head

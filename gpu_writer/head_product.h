// The product of hidden states and a rank's part of the LM head on Hopper, as plain calls that enqueue and
// never wait. Beside the logits it leaves what a lean step measures of them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "gpu_writer/answer_kernel.h"
#include "gpu_writer/lean_kernels.h"
#include "proto/dtype.h"

namespace croupier::gpu_writer::head {

constexpr std::uint32_t kBlockRows = 64;  // of the head: the ids of a block

// A column that its writer draws, and of which nothing else is told or asked: of its logits only those of
// blocks that may hold the winner matter.
constexpr bool is_drawn_alone(const LeanWant& want) {
    return want.flags.has(Want::draw) && want.mask_row == 0 &&
           !want.flags.has_any(Want::whole | Want::sum_at_one | Want::sum_at_scale | Want::spread);
}

// The product of more columns takes the time of the multiprocessors, not of the memory. What it would do with
// wants is done sooner by the step's kernel, from the rows (measured on an H100).
constexpr std::uint32_t kMostTold = 128;
// Steps of 256 columns were sooner with cuBLAS's product, those of 128 as soon or later.
constexpr std::uint32_t kMostWorthwhile = 128;

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
    std::uint32_t lead = 0;         // ids of the first block that belong to another rank
    std::uint32_t first_block = 0;  // of the rank, in the vocabulary: what its blocks race with
    // [column][block][id], -inf where the rank has no row; null: not wanted. They begin at a multiple of
    // sixteen bytes, and the stride is a multiple of eight.
    std::uint16_t* logits = nullptr;
    std::uint64_t logits_stride = 0;
    // Of a step that only the GPU knows, its columns: where it has none nothing is computed. Null: it is
    // known.
    const std::uint32_t* found_columns = nullptr;
    // [column][block]: the code of the block's largest logit, as lean parts have it (one zero, one NaN);
    // null: not wanted.
    std::uint16_t* maxima = nullptr;
    std::uint64_t maxima_stride = 0;
    // Of each column, in memory that the GPU sees; null: the logits and maxima are all that is left. With
    // them LeanMeasured's others, of at most kMostTold columns. Of columns that are drawn alone, logits that
    // cannot reach the floor may be left out.
    const LeanWant* wants = nullptr;
    LeanSums* sums = nullptr;
    std::uint64_t sums_stride = 0;
    std::uint32_t* floors = nullptr;

    constexpr std::uint32_t blocks() const { return (lead + entries + kBlockRows - 1) / kBlockRows; }
};

// One shape of tiles. All have equal logits and maxima.
struct HeadTiles {
    const char* name;
    std::uint32_t columns;  // that one tile takes
    bool knows_wants;       // else a product's wants are left aside
    cudaError_t (*load)(proto::Dtype dtype);
    cudaError_t (*launch)(const HeadProduct& product, cudaStream_t stream);
};
// From narrow to wide.
std::span<const HeadTiles> head_tiles();

// cudaErrorNoKernelImageForDevice where the present GPU is not Hopper, cudaErrorNotSupported where its driver
// lacks what describes matrices to it. Before the first launch: CUDA loads
// kernels late otherwise, and waits for the GPU then.
cudaError_t load_head_kernels(proto::Dtype dtype);
cudaError_t launch_head(const HeadProduct& product, cudaStream_t stream);

// As launch_answering(), of rows with a source: blocks of columns that are drawn alone are computed again, to
// the same bits.
cudaError_t launch_computed_answers(const LeanRows& rows, const LeanSlice& slice, const QueueMemory& queue,
                                    std::uint64_t pass, const DeliveredTokens& tokens, const ToldRows& told,
                                    cudaStream_t stream);
// Before the first: load_head_kernels() does.
cudaError_t load_computed_answers(proto::Dtype dtype);

}  // namespace croupier::gpu_writer::head

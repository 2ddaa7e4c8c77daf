// The same instructions add the same products in the same order as in fused_head(). A CUDA block computes 16
// rows of an asked block, so that few asked blocks occupy many multiprocessors.
#include "bench/head/blocks_again.h"
#include "gpu_writer/head_values.cuh"

namespace croupier::gpu_writer::head {
namespace {

constexpr std::uint32_t kAgainRows = 16;
constexpr std::uint32_t kAgainStages = 6;
constexpr std::uint32_t kAgainSteps = 4;  // of kStepElements, in a stage
constexpr std::uint32_t kAgainHeadBytes = kAgainRows * kRowBytes;
constexpr std::uint32_t kAgainHiddenBytes = kAskedColumns * kRowBytes;
// The instruction reads 64 rows, and only 16 are loaded. The products of the others are not used.
constexpr std::uint32_t kAgainSlack = kBlockRows * kRowBytes - kAgainHeadBytes;
constexpr std::uint32_t kAgainAlignment = 1024;
constexpr std::uint32_t kAgainSharedBytes =
    kAgainAlignment + kAgainStages * kAgainSteps * (kAgainHeadBytes + kAgainHiddenBytes) + kAgainSlack;

// A stage's hidden states come first, so that the slack is behind the last head rows.
struct AgainShared {
    std::uint32_t base;

    __device__ std::uint32_t hidden(std::uint32_t stage, std::uint32_t step) const {
        return base + (stage * kAgainSteps + step) * kAgainHiddenBytes;
    }
    __device__ std::uint32_t head(std::uint32_t stage, std::uint32_t step) const {
        return base + kAgainStages * kAgainSteps * kAgainHiddenBytes +
               (stage * kAgainSteps + step) * kAgainHeadBytes;
    }
};

// One of the eight 16-byte units of a row's step, where the swizzle has it.
__device__ inline std::uint32_t swizzled(std::uint32_t tile, std::uint32_t row, std::uint32_t unit) {
    return tile + row * kRowBytes + (unit ^ row % 8) * 16;
}

struct AgainRows {
    const std::uint16_t* head;  // this thread's row of each; null: zeros
    const std::uint16_t* hidden;
    std::uint32_t unit;

    __device__ AgainRows(const AgainWork& work, const AskedBlock& asked, std::uint32_t first_row)
        : head(nullptr), hidden(nullptr), unit(threadIdx.x % 8) {
        const std::uint32_t row = asked.block * kBlockRows + first_row + threadIdx.x / 8;
        if (row >= work.lead && row < work.lead + work.entries)
            head = work.weight + (row - work.lead) * work.weight_stride;
        if (threadIdx.x / 8 >= kAskedColumns) return;
        const std::uint32_t column = asked.columns[threadIdx.x / 8];
        if (column != kNoColumn) hidden = work.hidden + column * work.hidden_stride;
    }
    // By all threads: 16 rows of the head and, by half of the threads, 8 of the hidden states.
    __device__ void copy(const AgainWork& work, const AgainShared& shared, std::uint32_t stage,
                         std::uint32_t first_step) const {
        const std::uint32_t row = threadIdx.x / 8;
#pragma unroll
        for (std::uint32_t i = 0; i < kAgainSteps; ++i) {
            const std::uint32_t element = (first_step + i) * kStepElements + unit * 8;
            const bool is_there = element < work.elements;
            const auto put = [&](std::uint32_t to, const std::uint16_t* from) {
                const bool copies = is_there && from != nullptr;
                copy_16(to, copies ? from + element : work.weight, copies);
            };
            put(swizzled(shared.head(stage, i), row, unit), head);
            if (row < kAskedColumns) put(swizzled(shared.hidden(stage, i), row, unit), hidden);
        }
    }
};

template <Dtype D>
__device__ void store_again(const float (&sums)[kAskedColumns / 2], const AgainWork& work,
                            const AskedBlock& asked, std::uint32_t first_row, std::uint16_t* to) {
    if (threadIdx.x >= 32) return;
#pragma unroll
    for (std::uint32_t half = 0; half < 2; ++half) {
        const std::uint32_t row = first_row + row_of_thread() + half * 8;
        const std::uint32_t entry = asked.block * kBlockRows + row;
        const bool is_there = entry >= work.lead && entry < work.lead + work.entries;
        const std::uint32_t codes = is_there
                                        ? codes_of(PairOf<D>::rounded(sums[2 * half], sums[2 * half + 1]))
                                        : minus_infinity(D) * 0x10001U;
        to[pair_of_thread() * 2 * kBlockRows + row] = static_cast<std::uint16_t>(codes);
        to[(pair_of_thread() * 2 + 1) * kBlockRows + row] = static_cast<std::uint16_t>(codes >> 16U);
    }
}

template <Dtype D>
__global__ void __launch_bounds__(kWarpgroup) blocks_again(const __grid_constant__ AgainWork work) {
    extern __shared__ std::uint8_t memory[];
    const std::uint32_t base = shared_address(memory);
    const AgainShared shared{(base + kAgainAlignment - 1) / kAgainAlignment * kAgainAlignment};
    const AskedBlock& asked = work.asked[blockIdx.x];
    const std::uint32_t first_row = blockIdx.y * kAgainRows;
    const AgainRows rows(work, asked, first_row);
    const std::uint32_t steps = (work.elements + kStepElements - 1) / kStepElements;
    const std::uint32_t turns = (steps + kAgainSteps - 1) / kAgainSteps;
#pragma unroll
    for (std::uint32_t turn = 0; turn < kAgainStages - 1; ++turn) {
        if (turn < turns) rows.copy(work, shared, turn, turn * kAgainSteps);
        end_copy_group();
    }
    float sums[kAskedColumns / 2];
    hold(sums);
    for (std::uint32_t turn = 0; turn < turns; ++turn) {
        wait_for_copies<kAgainStages - 2>();
        show_stores_to_tensor_cores();
        __syncthreads();
        // Into the stage of the turn before, whose products are done.
        const std::uint32_t next = turn + kAgainStages - 1;
        if (next < turns) rows.copy(work, shared, next % kAgainStages, next * kAgainSteps);
        end_copy_group();
        const std::uint32_t stage = turn % kAgainStages;
#pragma unroll
        for (std::uint32_t step = 0; step < kAgainSteps; ++step) {
            if (turn * kAgainSteps + step >= steps) break;
            begin_multiplying();
            const std::uint64_t head = matrix_at(shared.head(stage, step));
            const std::uint64_t hidden = matrix_at(shared.hidden(stage, step));
#pragma unroll
            for (std::uint32_t i = 0; i < kInstructions; ++i) {
                multiply<D, kAskedColumns>(sums, head + i * kDepthUnits, hidden + i * kDepthUnits,
                                           turn + step + i);
            }
        }
        end_multiply_group();
        wait_for_products<0>();
    }
    hold(sums);
    store_again<D>(sums, work, asked, first_row,
                   work.logits + std::uint64_t{blockIdx.x} * kAskedColumns * kBlockRows);
}

template <Dtype D>
cudaError_t launch_as(const AgainWork& work, std::uint32_t count, cudaStream_t stream) {
    const cudaError_t prepared =
        cudaFuncSetAttribute(blocks_again<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, kAgainSharedBytes);
    if (prepared != cudaSuccess) return prepared;
    const dim3 grid{count, kBlockRows / kAgainRows, 1};
    blocks_again<D><<<grid, kWarpgroup, kAgainSharedBytes, stream>>>(work);
    return cudaGetLastError();
}

}  // namespace

cudaError_t launch_blocks_again(Dtype dtype, const AgainWork& work, std::uint32_t count,
                                cudaStream_t stream) {
    if (dtype == Dtype::bf16) return launch_as<Dtype::bf16>(work, count, stream);
    if (dtype == Dtype::fp16) return launch_as<Dtype::fp16>(work, count, stream);
    return cudaErrorInvalidValue;
}

}  // namespace croupier::gpu_writer::head

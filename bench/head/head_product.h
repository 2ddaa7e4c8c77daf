// The head's kernels as plain calls that enqueue and never wait.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "proto/dtype.h"

namespace croupier::head {

struct HeadSums {
    float at_one;
    float at_scale;
};

// Hidden states [columns][elements] times the rank's rows of the head [entries][elements]; addresses are the
// device's. `elements` is a multiple of 8, and matrices begin at multiples of 16 bytes.
struct HeadCall {
    proto::Dtype dtype = proto::Dtype::bf16;  // of all three matrices; not fp32
    const void* hidden = nullptr;
    const void* head = nullptr;
    std::uint32_t columns = 0;
    std::uint32_t elements = 0;
    std::uint32_t entries = 0;
    std::uint32_t lead = 0;  // ids of the first block that belong to another rank
    // For each column and block: the code of the largest logit in the upper half, its first place in the
    // lower.
    std::uint32_t* best = nullptr;
    // Likewise, of 2^((logit - largest) * scale); both or neither.
    HeadSums* sums = nullptr;
    const HeadSums* scales = nullptr;  // of each column
    std::uint64_t block_stride = 0;    // blocks from column to column
    std::uint16_t* logits = nullptr;   // null: not wanted
    std::uint64_t logits_stride = 0;   // elements

    constexpr std::uint32_t blocks() const { return (lead + entries + 63) / 64; }
};

// One tile shape of the fused kernel. All have equal results.
struct HeadVariant {
    const char* name;
    std::uint32_t columns;  // that one tile takes
    cudaError_t (*launch)(const HeadCall& call, cudaStream_t stream);
};
std::span<const HeadVariant> head_variants();

// For each asked block, the columns to compute it for: kAskedColumns of blocks_again.cuh, and as the kernel
// has them.
cudaError_t launch_blocks_again(const HeadCall& call, const void* asked, std::uint32_t count,
                                std::uint16_t* logits, cudaStream_t stream);

}  // namespace croupier::head

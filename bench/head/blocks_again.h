// Blocks of 64 logits computed again, for the columns that ask for them: bit for bit as the product of a step
// has them, by a kernel of its own.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "gpu_writer/head_product.h"

namespace croupier::gpu_writer::head {

constexpr std::uint32_t kAskedColumns = 8;
constexpr std::uint32_t kNoColumn = 0xFFFFFFFF;

struct AskedBlock {
    std::uint32_t block;
    std::uint32_t columns[kAskedColumns];  // or kNoColumn
};

// Addresses are the device's, strides are of elements.
struct AgainWork {
    const std::uint16_t* weight;
    std::uint64_t weight_stride;
    const std::uint16_t* hidden;
    std::uint64_t hidden_stride;
    std::uint32_t elements;  // of a row
    std::uint32_t entries;
    std::uint32_t lead;
    const AskedBlock* asked;
    std::uint16_t* logits;  // [asked][kAskedColumns][kBlockRows]; -inf where the rank has no row
};

// bf16 or fp16.
cudaError_t launch_blocks_again(proto::Dtype dtype, const AgainWork& work, std::uint32_t count,
                                cudaStream_t stream);

}  // namespace croupier::gpu_writer::head

// Lays rows of logits into a slice: [tiles][columns][tile] elements.
#pragma once

#include <cstdint>
#include <span>

#include "proto/sampling.h"

namespace croupier::gpu_writer {

struct SliceShape {
    proto::Dtype dtype = proto::Dtype::bf16;
    std::uint32_t tile = 1;
    std::uint32_t entries = 0;  // of the rank's shard
    std::uint32_t columns = 1;  // of the step
};

struct SliceMemory {
    void* elements = nullptr;
    float* maxima = nullptr;  // [columns][maxima_stride]; null: the session has no summaries
    std::uint32_t maxima_stride = 0;
};

// What fills the last tile past the shard's end.
constexpr std::uint32_t minus_infinity(proto::Dtype dtype) {
    switch (dtype) {
        case proto::Dtype::bf16:
            return 0xFF80U;
        case proto::Dtype::fp16:
            return 0xFC00U;
        case proto::Dtype::fp32:
            return 0xFF800000U;
    }
    return 0;
}

// `rows` stand in the columns from `first_column` on; each has shape.entries elements.
void lay_rows(const SliceShape& shape, std::uint32_t first_column, std::span<const void* const> rows,
              const SliceMemory& slice);

}  // namespace croupier::gpu_writer

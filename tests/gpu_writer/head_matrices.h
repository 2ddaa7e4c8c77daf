// Random hidden states and part of an LM head on CUDA device 0, and their logits by another kernel than
// steps'.
#pragma once

#include <cstdint>

#include "gpu_writer/cuda_memory.h"
#include "gpu_writer/enqueued_rows.h"
#include "gpu_writer/head_product.h"
#include "tests/gpu_writer/naive_slice.h"

namespace croupier::testing {

struct HeadShape {
    proto::Dtype dtype = proto::Dtype::bf16;
    std::uint32_t rows = 0;
    std::uint32_t elements = 0;
    std::uint32_t entries = 0;
    std::uint32_t lead = 0;
    std::uint32_t padding = 0;  // elements behind each row, a multiple of 8
};

class HeadMatrices {
  public:
    HeadMatrices(const HeadShape& shape, std::uint32_t seed);

    // Others in their place; what was enqueued must be done.
    void fill(std::uint32_t seed);
    void put_hidden(std::uint32_t row, std::uint32_t element, float value);
    // Behind what the stream holds already, hidden states of nothing but NaN.
    void overwrite(void* stream);

    gpu_writer::EnqueuedHead head() const;
    // Rows so many elements apart.
    Rows logits(std::uint64_t stride) const;
    Rows logits() const { return logits(shape_.entries); }

  private:
    std::uint64_t stride() const { return std::uint64_t{shape_.elements} + shape_.padding; }

    HeadShape shape_;
    gpu_writer::DeviceMemory<std::uint16_t> hidden_;
    gpu_writer::DeviceMemory<std::uint16_t> weight_;
};

}  // namespace croupier::testing

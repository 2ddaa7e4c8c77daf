// GPU work of the benchmark other than the kernels of lean steps.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace croupier::bench::lean {

// Fills memory with normally distributed bf16 logits.
void fill_logits(void* to, std::uint64_t count);

// Launches a kernel that stores a value for a spinning CPU.
void launch_flag(std::uint64_t* flag, std::uint64_t value, cudaStream_t stream);

}  // namespace croupier::bench::lean

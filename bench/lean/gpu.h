// What the measurement of lean steps asks of the GPU besides their kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace croupier::bench::lean {

// Bell-shaped bf16 logits, as many.
void fill_logits(void* to, std::uint64_t count);

// A kernel that stores the value where a CPU spins.
void launch_flag(std::uint64_t* flag, std::uint64_t value, cudaStream_t stream);

}  // namespace croupier::bench::lean

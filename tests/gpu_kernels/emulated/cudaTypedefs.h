// See cuda_runtime_api.h beside it.
#pragma once

#include <cstdint>

#include "tests/gpu_kernels/emulated/cuda_runtime_api.h"

// NOLINTBEGIN: the names are CUDA's.
using PFN_cuStreamWaitValue64_v11070 = int (*)(cudaStream_t, std::uint64_t, std::uint64_t, unsigned);
// NOLINTEND

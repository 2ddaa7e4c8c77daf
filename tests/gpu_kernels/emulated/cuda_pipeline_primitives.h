// See cuda_runtime_api.h beside it. What is copied is not there before it is waited for.
#pragma once

#include "tests/gpu_kernels/emulated/cuda_runtime_api.h"

// NOLINTBEGIN: the names are CUDA's.
struct CudaCopy {
    void* to;
    const void* from;
    std::size_t bytes;
};
inline std::vector<CudaCopy>& cuda_copies() {
    static std::vector<std::vector<CudaCopy>> of_threads(1024);
    return of_threads[threadIdx.x];
}
inline void __pipeline_memcpy_async(void* to, const void* from, std::size_t bytes) {
    cuda_copies().push_back({to, from, bytes});
}
inline void __pipeline_commit() {}
inline void __pipeline_wait_prior(int) {
    for (const CudaCopy& copy : cuda_copies()) std::memcpy(copy.to, copy.from, copy.bytes);
    cuda_copies().clear();
}
// NOLINTEND

// Words that other threads, blocks or processors read or write meanwhile.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace croupier::gpu_writer {

template <typename T>
__device__ T load_now(const T* from) {
    return *static_cast<const volatile T*>(from);
}

template <typename T>
__device__ void store_now(T* to, T value) {
    *static_cast<volatile T*>(to) = value;
}

// Of so many CUDA blocks, whether all others have arrived: what they stored before is there for the one that
// is told so. The word is zero before the first and behind the last.
__device__ inline bool arrives_last(std::uint32_t* arrived, std::uint32_t of) {
    __shared__ bool last;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicAdd(arrived, 1U) + 1 == of;
        // Before the store, for which it would wait.
        __threadfence();
        if (last) store_now(arrived, 0U);
    }
    __syncthreads();
    return last;
}

}  // namespace croupier::gpu_writer

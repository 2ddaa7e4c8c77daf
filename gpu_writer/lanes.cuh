// What the lanes of a warp make together.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace croupier::gpu_writer {

constexpr std::uint32_t kAllLanes = 0xFFFFFFFFU;

// Over so many neighbouring lanes, a power of two.
template <std::uint32_t kLanes, typename T, typename Join>
__device__ T joined(T value, Join join) {
#pragma unroll
    for (std::uint32_t apart = kLanes / 2; apart > 0; apart /= 2) {
        value = join(value, __shfl_xor_sync(kAllLanes, value, static_cast<int>(apart)));
    }
    return value;
}

}  // namespace croupier::gpu_writer

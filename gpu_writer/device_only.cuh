// What no C++ compiler for a CPU takes: tests/gpu_kernels has each of these for one.
#pragma once

#include <cuda_runtime_api.h>

namespace croupier::gpu_writer {

// NaN if either is: fmaxf would drop it.
__device__ inline float larger(float a, float b) {
    float most;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(a), "f"(b));
    return most;
}

__device__ inline float power_of_two(float exponent) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
    return power;
}

// Off by 2^-22, and by as much as a share of it; of numbers that are no denormals.
__device__ inline float log_to_base_two(float value) {
    float log;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(log) : "f"(value));
    return log;
}

// A kernel may begin before the one before it in its stream has ended: what that leaves is there behind this.
__device__ inline void await_kernel_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// The next kernel may begin, where it is launched so.
__device__ inline void let_next_kernel_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// The bytes that a launch asks for beside what the kernel itself declares.
__device__ inline void* launch_memory() {
    extern __shared__ uint4 memory[];
    return memory;
}

}  // namespace croupier::gpu_writer

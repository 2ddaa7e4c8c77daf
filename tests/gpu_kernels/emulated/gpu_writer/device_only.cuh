// gpu_writer/device_only.cuh for this CPU.
#pragma once

#include <cmath>
#include <limits>

#include "tests/gpu_kernels/grid.h"

namespace croupier::gpu_writer {

inline float larger(float a, float b) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<float>::quiet_NaN();
    // Of two zeros the positive one, as on a GPU.
    if (a == b) return std::signbit(a) ? b : a;
    return a > b ? a : b;
}

inline float power_of_two(float exponent) {
    const float power = std::exp2(exponent);
    return power < std::numeric_limits<float>::min() ? 0.0F : power;
}

// Off by what a GPU's may be, in turns too much and too little.
inline float log_to_base_two(float value) {
    static int turn = 0;
    const float off = turn++ % 2 == 0 ? 0x1p-22F : -0x1p-22F;
    const float log = std::log2(value);
    return log + off * (1.0F + std::abs(log));
}

// One kernel runs after another here.
inline void await_kernel_before() {}

inline void* launch_memory() {
    return testing::gpu::shared_memory();
}

}  // namespace croupier::gpu_writer

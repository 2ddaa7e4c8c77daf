// Elements as the ranks wrote them to floats, judged on the way.
#pragma once

#include <algorithm>
#include <cstdint>

namespace croupier::sampler {

constexpr std::int32_t kInfinityBits = 0x7F800000;

// The largest magnitude and the largest value as integers, which order as the floats do: two maxima
// vectorise where a test of each element would branch.
struct Worst {
    std::int32_t magnitude = 0;
    std::int32_t value = 0;

    void judge(std::uint32_t bits) {
        magnitude = std::max(magnitude, static_cast<std::int32_t>(bits & 0x7FFFFFFFU));
        value = std::max(value, static_cast<std::int32_t>(bits));
    }
    void judge(const Worst& other) {
        magnitude = std::max(magnitude, other.magnitude);
        value = std::max(value, other.value);
    }
    bool nan() const { return magnitude > kInfinityBits; }
    bool positive_infinity() const { return value == kInfinityBits; }
};

// A run of bf16 elements that lie one after the other.
Worst convert_bf16_run(const std::uint16_t* elements, std::uint32_t count, float* out);

}  // namespace croupier::sampler

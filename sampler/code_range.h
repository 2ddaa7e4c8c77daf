// The values of a 32-bit row that share the upper 16 bits of their codes. Values that are no floats belong to
// the float below them; zeros of either sign, and what lies next to them, belong to code 0.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "sampler/float_bounds.h"

namespace croupier::sampler {

constexpr std::uint32_t kSignCode = 0x8000U;

inline std::uint32_t upper_code_of(double value) {
    const float below = std::max(float_below(value), std::numeric_limits<float>::lowest());
    const std::uint32_t code = std::bit_cast<std::uint32_t>(below) >> 16U;
    return code == kSignCode ? 0 : code;
}

inline double least_of_upper_code(std::uint32_t code) {
    constexpr std::uint32_t kLowestCode = 0xFF7FU;
    if (code == kLowestCode) return std::numeric_limits<double>::lowest();
    const bool positive = code > 0 && code < kSignCode;
    const std::uint32_t bits = positive ? code << 16U : (code | kSignCode) << 16U | 0xFFFFU;
    return static_cast<double>(std::bit_cast<float>(bits));
}

// What comes before the next code's least value. (A step of its bits: that value is not 0.)
inline double most_of_upper_code(std::uint32_t code) {
    const double next = code < kSignCode ? static_cast<double>(std::bit_cast<float>((code + 1) << 16U))
                                         : least_of_upper_code(code - 1);
    const auto bits = std::bit_cast<std::uint64_t>(next);
    return std::bit_cast<double>(next > 0.0 ? bits - 1 : bits + 1);
}

}  // namespace croupier::sampler

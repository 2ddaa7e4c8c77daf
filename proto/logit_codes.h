// Floats as the logits' element types, rounded to nearest even as a GPU's LM head rounds them.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace croupier::proto {

inline std::uint16_t bf16_code(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if (std::isnan(value)) return 0x7FC0;
    return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

inline float bf16_value(std::uint16_t code) {
    return std::bit_cast<float>(std::uint32_t{code} << 16U);
}

inline std::uint16_t fp16_code(float value) {
    if (std::isnan(value)) return 0x7E00;
    const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000U : 0U);
    const float magnitude = std::fabs(value);
    // 65520 is half a unit above the largest finite value: it rounds to infinity.
    if (magnitude >= 65520.0F) return static_cast<std::uint16_t>(sign | 0x7C00U);
    if (magnitude < 0x1p-14F) {
        // Subnormal: a multiple of 2^-24; nearbyint rounds to even. 1024 of them are the first normal code.
        return static_cast<std::uint16_t>(sign |
                                          static_cast<std::uint32_t>(std::nearbyint(magnitude * 0x1p24F)));
    }
    const auto bits = std::bit_cast<std::uint32_t>(magnitude);
    const std::uint32_t rounded = bits + 0xFFFU + ((bits >> 13U) & 1U);
    return static_cast<std::uint16_t>(sign | ((rounded >> 13U) - ((127U - 15U) << 10U)));
}

}  // namespace croupier::proto

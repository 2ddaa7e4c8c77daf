// What the codes of the logits' formats stand for.
#pragma once

#include <bit>
#include <cstdint>

#include "proto/dtype.h"

namespace croupier::gpu_writer {

// What stands where no id of the rank and the vocabulary does.
constexpr std::uint32_t minus_infinity(proto::Dtype dtype) {
    switch (dtype) {
        case proto::Dtype::bf16:
            return 0xFF80U;
        case proto::Dtype::fp16:
            return 0xFC00U;
        case proto::Dtype::fp32:
            return 0xFF800000U;
    }
    return 0;
}

// Of all NaNs, the one that maxima are written with.
constexpr std::uint32_t quiet_nan(proto::Dtype dtype) {
    return dtype == proto::Dtype::fp32 ? 0x7FFFFFFFU : 0x7FFFU;
}

constexpr float bf16_value(std::uint32_t code) {
    return std::bit_cast<float>(code << 16U);
}

constexpr float fp16_value(std::uint32_t code) {
    const std::uint32_t sign = (code & 0x8000U) << 16U;
    const std::uint32_t magnitude = code & 0x7FFFU;
    constexpr std::uint32_t kRebias = 112U << 23U;
    std::uint32_t bits = (magnitude << 13U) + kRebias;
    if (magnitude >= 0x7C00U) bits += kRebias;
    // Subnormals have no leading one to keep, and their multiples of 2^-24 are normal floats.
    if (magnitude < 0x0400U) bits = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24F);
    return std::bit_cast<float>(bits | sign);
}

constexpr float value_of_code(proto::Dtype dtype, std::uint32_t code) {
    switch (dtype) {
        case proto::Dtype::bf16:
            return bf16_value(code);
        case proto::Dtype::fp16:
            return fp16_value(code);
        case proto::Dtype::fp32:
            return std::bit_cast<float>(code);
    }
    return 0;
}

}  // namespace croupier::gpu_writer

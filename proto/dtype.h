// The types that logits come in.
#pragma once

#include <cstdint>

namespace croupier::proto {

enum class Dtype : std::uint32_t { bf16 = 0, fp16 = 1, fp32 = 2 };
constexpr const char* name_of(Dtype dtype) {
    return dtype == Dtype::bf16 ? "bf16" : dtype == Dtype::fp16 ? "fp16" : "fp32";
}

constexpr std::uint32_t element_bytes(Dtype dtype) {
    return dtype == Dtype::fp32 ? 4U : 2U;
}

}  // namespace croupier::proto

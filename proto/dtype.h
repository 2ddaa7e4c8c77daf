// The types that logits come in.
#pragma once

#include <cstdint>

namespace croupier::proto {

enum class Dtype : std::uint32_t { bf16 = 0, fp16 = 1, fp32 = 2 };

constexpr std::uint32_t element_bytes(Dtype dtype) {
    return dtype == Dtype::fp32 ? 4U : 2U;
}

}  // namespace croupier::proto

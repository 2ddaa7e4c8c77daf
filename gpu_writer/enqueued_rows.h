// What an engine enqueues of a step.
#pragma once

#include <cstdint>

namespace croupier::gpu_writer {

// As croupier_head: what rows of logits are computed from.
struct EnqueuedHead {
    const void* hidden = nullptr;
    std::uint64_t hidden_stride = 0;
    const void* weight = nullptr;
    std::uint64_t weight_stride = 0;
    std::uint32_t rows = 0;
    std::uint32_t elements = 0;
};

// Negative numbers, as row_of has them, are beyond it.
constexpr std::uint32_t kNoRowEnd = 0x80000000U;
constexpr bool is_row(std::int32_t number, std::uint32_t row_end) {
    return static_cast<std::uint32_t>(number) < row_end;
}

// As croupier_rows; arrays are null or have an entry a column.
struct EnqueuedRows {
    const void* logits = nullptr;
    std::uint64_t row_stride = 0;
    const std::int32_t* row_of = nullptr;
    const std::int32_t* inputs = nullptr;
    const std::int32_t* parents = nullptr;
    const std::int32_t* positions = nullptr;
    std::uint32_t row_end = kNoRowEnd;  // of row_of's numbers, those from this on are of no row

    // Whether what is known of a column when its step begins may not be all.
    constexpr bool has_arrays() const {
        return row_of != nullptr || inputs != nullptr || positions != nullptr;
    }
};

}  // namespace croupier::gpu_writer

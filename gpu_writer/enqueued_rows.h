// What an engine enqueues of a step.
#pragma once

#include <cstdint>

namespace croupier::gpu_writer {

// As croupier_rows; arrays are null or have an entry a column.
struct EnqueuedRows {
    const void* logits = nullptr;
    std::uint64_t row_stride = 0;
    const std::int32_t* row_of = nullptr;
    const std::int32_t* inputs = nullptr;
    const std::int32_t* parents = nullptr;
    const std::int32_t* positions = nullptr;

    // Whether what is known of a column when its step begins may not be all.
    constexpr bool has_arrays() const {
        return row_of != nullptr || inputs != nullptr || positions != nullptr;
    }
};

}  // namespace croupier::gpu_writer

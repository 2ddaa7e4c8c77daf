// What each row of a step with windows was computed from, from a GPU's arrays into the segment.
#pragma once

#include "gpu_writer/device_words.cuh"
#include "gpu_writer/enqueued_rows.h"
#include "proto/schedule_slot.h"

namespace croupier::gpu_writer {

// By one CUDA block of so many threads; `to` has a word a column. Whoever sees what a later kernel of the
// stream stores, on the CPU too, sees these words.
template <std::uint32_t kThreads>
__device__ void store_inputs(const EnqueuedRows& rows, std::uint64_t to, std::uint32_t columns) {
    auto* words = reinterpret_cast<std::uint64_t*>(to);
    for (std::uint32_t column = threadIdx.x; column < columns; column += kThreads) {
        const bool has_row = rows.row_of == nullptr || is_row(rows.row_of[column], rows.row_end);
        proto::RowInput input;
        if (has_row) input.token = rows.inputs[column];
        input.parent = column == 0 ? 0 : column - 1;
        if (rows.parents != nullptr) input.parent = static_cast<std::uint32_t>(rows.parents[column]);
        store_now(words + column, input.pack());
    }
    __threadfence_system();
}

}  // namespace croupier::gpu_writer

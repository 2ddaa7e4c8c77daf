// Tiling in a hotness order by way of lines: an id's line is its logits of all columns, one after another.
// An element of a row fetched alone costs a sector of 32 bytes; a line is fetched whole.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "gpu_writer/slice_kernels.h"

namespace croupier::gpu_writer {

// Whether a step of so many columns is gathered from lines; else launch_tiling() does it.
bool gathers_lines(const SliceRows& rows, std::uint32_t columns);
// 0 where it is not.
std::uint64_t lines_bytes(const SliceRows& rows, std::uint32_t columns);

// As launch_tiling(), with lines_bytes() of GPU memory that the launch may overwrite.
cudaError_t launch_line_tiling(const SliceRows& rows, const SliceTarget& target, TileRange tiles, void* lines,
                               cudaStream_t stream);

}  // namespace croupier::gpu_writer

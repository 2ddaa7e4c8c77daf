// Lays one rank's lean part of a step on the host (proto/lean_part.h): what the GPU's kernels have to make.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "gpu_writer/lean_choice.h"
#include "gpu_writer/lean_wants.h"
#include "gpu_writer/tile_layout.h"
#include "proto/lean_part.h"

namespace croupier::gpu_writer {

struct LeanShape {
    SliceShape slice;  // of the same step: there whole columns and blocks that were asked for stand
    std::uint32_t first_block = 0;  // of the rank's, among all ids' blocks
    std::uint32_t room = 0;         // for so many blocks of a column
    proto::LeanLayout layout;
    StepMasks masks;  // of the same step, where a column has one
    StepNames names;  // likewise

    BlockSpan span() const { return {slice.lead, slice.entries, slice.blocks}; }
};
LeanShape lean_shape(const proto::Geometry& geometry, std::uint32_t rank, std::uint32_t columns);

struct LeanMemory {
    std::byte* part = nullptr;
    void* slice = nullptr;
};

void lay_lean_column(const LeanShape& shape, std::uint32_t column, const LeanWant& want, const void* row,
                     const LeanMemory& memory);
// `rows` stand in the columns from 0 on, as lay_rows() has them; `wants` are one a column. The blocks that
// are sent of a column ascend; of equal ranks, the first blocks are chosen.
void lay_lean(const LeanShape& shape, std::span<const LeanWant> wants, std::span<const void* const> rows,
              const LeanMemory& memory);

// Lays those of the rank's blocks whose bits are set at their places in the slice: block b is bit b % 64 of
// word b / 64.
void lay_blocks(const LeanShape& shape, std::uint32_t column, const void* row,
                std::span<const std::uint64_t> bitmap, void* slice);

}  // namespace croupier::gpu_writer

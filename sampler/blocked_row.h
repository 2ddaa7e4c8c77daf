// A row as blocks of 64 entries, read where the ranks wrote them. Every pass over a row is a pass over
// blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "proto/sampling.h"
#include "sampler/row_view.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

// Blocks at equal distances in memory.
struct BlockRun {
    const std::byte* elements;
    std::size_t stride;  // in bytes, from block to block
    std::uint32_t blocks;
    std::uint32_t first_block;     // its first block's number in the row
    std::uint32_t first_position;  // and that block's first position in vocabulary order
    std::uint32_t entries;         // what is left of its last block is -inf
    std::uint32_t slice;           // of the view
    std::uint32_t slice_block;     // its first block's number in the slice
};

struct BlockedRow {
    proto::Dtype dtype;
    std::span<const BlockRun> runs;
    std::uint32_t blocks;
    bool summarised;  // the workspace's block maxima are the writer's already

    const BlockRun& run_at(std::uint32_t position) const;
    float value_at(std::uint32_t position) const;
    float value_in(const BlockRun& run, std::uint32_t entry) const;
};

// What cannot be read in place goes to the workspace first: the last, partial block of a slice, whose padding
// is not believed, and rows in tiles of another size than 64 beside other columns. The view must be
// consistent.
BlockedRow lay_in_blocks(const RowView& view, Workspace& workspace) noexcept;

// A 16-bit or 32-bit element's value, exactly.
float value_of_code(proto::Dtype dtype, std::uint32_t code) noexcept;
std::uint32_t negative_infinity_code(proto::Dtype dtype) noexcept;

}  // namespace croupier::sampler

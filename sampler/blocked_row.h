// A row as blocks of 64 entries, read where the ranks wrote them: block b is the ids 64 b to 64 b + 63. Every
// pass over a row is a pass over blocks, in the order of their ids.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "proto/sampling.h"
#include "sampler/row_view.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

// Consecutive blocks at equal distances in memory, or at such places.
struct BlockRun {
    const std::byte* elements;
    std::size_t stride;           // in bytes, from place to place
    const std::uint32_t* places;  // of each block of the run; null: one after the other
    std::uint32_t blocks;
    std::uint32_t first_block;

    const std::byte* block(std::uint32_t i) const {
        return elements + (places == nullptr ? i : places[i]) * stride;
    }
};

struct BlockedRow {
    proto::Dtype dtype;
    std::span<const BlockRun> runs;  // over all blocks, ascending
    std::uint32_t vocab;
    std::uint32_t blocks;  // the last one's entries beyond the vocabulary are -inf
    bool summarised;       // the workspace's block maxima are the writer's already

    const std::byte* block(std::uint32_t b) const {
        const auto run = std::find_if(runs.begin(), runs.end(), [b](const BlockRun& each) {
            return b - each.first_block < each.blocks;
        });
        return run->block(b - run->first_block);
    }
    const std::byte* element(std::uint32_t id) const {
        return block(id / kBlock) + std::size_t{id % kBlock} * proto::element_bytes(dtype);
    }
    float value_in(const std::byte* elements, std::uint32_t entry) const;
    float value_at(std::uint32_t id) const { return value_in(block(id / kBlock), id % kBlock); }
};

// What cannot be read in place goes to the workspace first: blocks that are not one rank's alone, or reach
// beyond the vocabulary, whose padding is not believed; and rows in tiles of another size than 64 beside
// other columns. The view must be consistent.
BlockedRow lay_in_blocks(const RowView& view, Workspace& workspace) noexcept;

// A 16-bit or 32-bit element's value, exactly.
float value_of_code(proto::Dtype dtype, std::uint32_t code) noexcept;
std::uint32_t negative_infinity_code(proto::Dtype dtype) noexcept;

}  // namespace croupier::sampler

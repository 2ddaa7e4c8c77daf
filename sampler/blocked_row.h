// A row as blocks of 64 entries, read where the ranks wrote them: block b is the ids 64 b to 64 b + 63. Every
// pass over a row is a pass over blocks, in the order of their ids.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "proto/dtype.h"
#include "sampler/row_view.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

// A 16-bit or 32-bit element's value, exactly.
float value_of_code(proto::Dtype dtype, std::uint32_t code) noexcept;

// Consecutive blocks at equal distances in memory, or at such places; or wherever they lie, if they are
// there.
struct BlockRun {
    const std::byte* elements;
    std::size_t stride;           // in bytes, from place to place
    const std::uint32_t* places;  // of each block of the run; null: one after the other
    std::uint32_t blocks;
    std::uint32_t first_block;
    LeanBlocks* lean = nullptr;  // not null: it alone tells where they are

    // One after the other.
    bool is_even() const { return places == nullptr && lean == nullptr; }

    const std::byte* block(std::uint32_t i) const {
        return lean != nullptr ? lean->block(first_block + i) : whole_block(i);
    }
    // For prefetching only: an absent block is not noted as missing.
    const std::byte* ahead(std::uint32_t i) const {
        return lean != nullptr ? lean->ahead(first_block + i) : whole_block(i);
    }

  private:
    const std::byte* whole_block(std::uint32_t i) const {
        return elements + (places == nullptr ? i : places[i]) * stride;
    }
};

struct BlockedRow {
    proto::Dtype dtype;
    std::span<const BlockRun> runs;  // over all blocks, ascending
    std::uint32_t vocab;
    std::uint32_t blocks;        // the last one's entries beyond the vocabulary are -inf
    bool summarised;             // the workspace's block maxima are the writer's already
    LeanBlocks* lean = nullptr;  // of a row that is there in part

    const std::byte* block(std::uint32_t b) const {
        if (lean != nullptr) return lean->block(b);
        const BlockRun& run = run_of(b);
        return run.block(b - run.first_block);
    }
    // For prefetching only: an absent block is not noted as missing.
    const std::byte* ahead(std::uint32_t b) const {
        if (lean != nullptr) return lean->ahead(b);
        const BlockRun& run = run_of(b);
        return run.ahead(b - run.first_block);
    }
    bool is_there(std::uint32_t b) const { return lean == nullptr || lean->is_there(b); }
    // How many absent blocks were asked for. If any were, the decision is void.
    std::uint32_t asked() const { return lean == nullptr ? 0 : lean->asked; }
    bool lacks_blocks() const { return asked() > 0; }
    // Whether a search that had asked for `before` blocks when it began should be restarted once the blocks
    // that it asked for are there.
    bool asked_enough(std::uint32_t before) const {
        return lean != nullptr && lean->asked - before >= lean->most_asked_at_once();
    }

    // For paths that need the whole row: asks for everything before reading what would be void.
    void ask_for_absent() const {
        if (lean == nullptr) return;
        for (std::uint32_t b = 0; b < blocks; ++b) {
            if (!lean->is_there(b)) (void)lean->block(b);
        }
    }

    const std::byte* element(std::uint32_t id) const {
        return block(id / kBlock) + std::size_t{id % kBlock} * proto::element_bytes(dtype);
    }
    const std::byte* element_ahead(std::uint32_t id) const {
        return ahead(id / kBlock) + std::size_t{id % kBlock} * proto::element_bytes(dtype);
    }
    float value_in(const std::byte* elements, std::uint32_t entry) const {
        if (dtype == proto::Dtype::fp32) return reinterpret_cast<const float*>(elements)[entry];
        const std::uint16_t code = reinterpret_cast<const std::uint16_t*>(elements)[entry];
        if (dtype == proto::Dtype::bf16) return std::bit_cast<float>(std::uint32_t{code} << 16U);
        return value_of_code(dtype, code);
    }
    float value_at(std::uint32_t id) const {
        if (lean != nullptr && lean->is_named(id)) return lean->named_logits[id];
        if (lean != nullptr && lean->has_values && !lean->is_there(id / kBlock)) {
            if (const auto sent = lean->logit_sent(id)) return *sent;
        }
        return value_in(block(id / kBlock), id % kBlock);
    }
    // Of a row that is there in part, without asking for anything.
    std::optional<float> value_if_there(std::uint32_t id) const {
        if (lean->is_named(id)) return lean->named_logits[id];
        if (lean->is_there(id / kBlock)) return value_in(lean->at[id / kBlock], id % kBlock);
        return lean->has_values ? lean->logit_sent(id) : std::nullopt;
    }

  private:
    const BlockRun& run_of(std::uint32_t b) const {
        return *std::find_if(runs.begin(), runs.end(),
                             [b](const BlockRun& each) { return b - each.first_block < each.blocks; });
    }
};

// What cannot be read in place goes to the workspace first: blocks that are not one rank's alone, or reach
// beyond the vocabulary, whose padding is not believed; and rows in tiles of another size than 64 beside
// other columns. The view must be consistent.
BlockedRow lay_in_blocks(const RowView& view, Workspace& workspace) noexcept;

std::uint32_t negative_infinity_code(proto::Dtype dtype) noexcept;

}  // namespace croupier::sampler

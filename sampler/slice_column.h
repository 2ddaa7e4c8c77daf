// A rank's slice of one column, as the layers of a row see it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "sampler/blocked_row.h"
#include "sampler/row_view.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

// A slice's ids that are in the vocabulary, and how its column lies in memory.
class SliceColumn {
  public:
    SliceColumn(const RowView& view, const Slice& slice)
        : slice_(slice),
          bytes_(proto::element_bytes(view.dtype)),
          tile_(view.tile),
          tile_stride_(std::size_t{view.columns} * view.tile * bytes_),
          column_(slice.elements == nullptr ? nullptr  // an empty slice
                                            : static_cast<const std::byte*>(slice.elements) +
                                                  std::size_t{view.column} * view.tile * bytes_),
          first_block_(slice.first_id / kBlock),
          end_(static_cast<std::uint32_t>(
              std::min(std::uint64_t{view.vocab}, std::uint64_t{slice.first_id} + slice.entries))) {}

    std::uint32_t first_id() const { return slice_.first_id; }
    std::uint32_t end() const { return end_; }
    bool is_empty() const { return end_ <= slice_.first_id; }

    // Where the slice's blocks lie at equal distances: the first place.
    const std::byte* elements() const { return column_; }
    // From `block` on; null: one after the other.
    const std::uint32_t* places(std::uint32_t block) const {
        return slice_.places == nullptr ? nullptr : slice_.places + (block - first_block_);
    }
    std::uint32_t place_of(std::uint32_t block) const {
        return slice_.places == nullptr ? block - first_block_ : *places(block);
    }
    // The writer's maximum of the tile of 64 that is the block.
    float maximum_of(std::uint32_t block, std::uint32_t column) const {
        return maxima(column)[place_of(block)];
    }
    const float* maxima(std::uint32_t column) const {
        return slice_.summaries.maxima + std::size_t{column} * slice_.summaries.stride;
    }

    // The ids of one block from `id` to `end`, out of whatever tiles they lie in.
    void copy(std::uint32_t id, std::uint32_t end, std::byte* out) const {
        std::size_t entry = std::size_t{place_of(id / kBlock)} * kBlock + id % kBlock;
        for (std::size_t left = end - id; left > 0;) {
            const std::size_t inside = entry % tile_;
            const std::size_t some = std::min(left, tile_ - inside);
            std::memcpy(out, column_ + entry / tile_ * tile_stride_ + inside * bytes_, some * bytes_);
            out += some * bytes_;
            entry += some;
            left -= some;
        }
    }
    // The same in tiles of one.
    template <typename Element>
    void copy_single(std::uint32_t id, std::uint32_t end, Element* out) const {
        const std::size_t entry = std::size_t{place_of(id / kBlock)} * kBlock + id % kBlock;
        const std::size_t stride = tile_stride_ / sizeof(Element);
        const Element* from = reinterpret_cast<const Element*>(column_) + entry * stride;
        for (std::uint32_t i = 0; i < end - id; ++i) out[i] = from[i * stride];
    }

  private:
    const Slice& slice_;
    std::size_t bytes_;
    std::size_t tile_;
    std::size_t tile_stride_;
    const std::byte* column_;
    std::uint32_t first_block_;
    std::uint32_t end_;
};

// Calls visit(column, slice) for those that hold ids of the vocabulary.
template <typename Visit>
void each_slice(const RowView& view, Visit visit) {
    for (const Slice& slice : view.slices) {
        const SliceColumn column(view, slice);
        if (!column.is_empty()) visit(column, slice);
    }
}

// Of parts of a block.
inline float larger_or_nan(float a, float b) {
    return a > b || std::isnan(a) ? a : b;
}

// -inf for a block's entries from `from` on.
inline void fill_with_nothing(proto::Dtype dtype, std::byte* block, std::uint32_t from) {
    const std::uint32_t nothing = negative_infinity_code(dtype);
    const std::size_t bytes = proto::element_bytes(dtype);
    for (std::uint32_t i = from; i < kBlock; ++i) std::memcpy(block + i * bytes, &nothing, bytes);
}

}  // namespace croupier::sampler

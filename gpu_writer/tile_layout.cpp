#include "gpu_writer/tile_layout.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "gpu_writer/tile_maxima.h"

namespace croupier::gpu_writer {
namespace {

// What is written together should stay in the first-level cache until its lines are full.
constexpr std::size_t kCachedBytes = std::size_t{16} * 1024;

template <typename Element>
struct Layer {
    const SliceShape& shape;
    const SliceMemory& slice;
    Element padding;

    // Calls visit(element, count) for each stretch of the slice's places `begin` to `end` that lies together
    // in a tile.
    template <typename Visit>
    void each_stretch(std::uint32_t column, std::uint32_t begin, std::uint32_t end, Visit visit) const {
        const std::size_t stride = std::size_t{shape.columns} * shape.tile;
        std::uint32_t within = begin % shape.tile;
        Element* tile = static_cast<Element*>(slice.elements) + begin / shape.tile * stride +
                        std::size_t{column} * shape.tile;
        while (begin < end) {
            const std::uint32_t some = std::min(shape.tile - within, end - begin);
            visit(tile + within, some);
            begin += some;
            within = 0;
            tile += stride;
        }
    }

    void copy(const Element* from, std::uint32_t column, std::uint32_t begin, std::uint32_t end) const {
        if (shape.tile == 1) {
            Element* to = static_cast<Element*>(slice.elements) + std::size_t{begin} * shape.columns + column;
            for (; begin < end; ++begin, ++from, to += shape.columns) *to = *from;
            return;
        }
        each_stretch(column, begin, end, [&from](Element* to, std::uint32_t count) {
            std::memcpy(to, from, count * sizeof(Element));
            from += count;
        });
    }

    void pad(std::uint32_t column, std::uint32_t begin, std::uint32_t end) const {
        each_stretch(column, begin, end,
                     [this](Element* to, std::uint32_t count) { std::fill_n(to, count, padding); });
    }

    // Places `begin` to `end`, which hold the entries of as many ids one after another, the first being the
    // one at `entry`, counted from the first block's first id.
    void lay_run(const Element* row, std::uint32_t column, std::uint32_t begin, std::uint32_t end,
                 std::uint32_t entry) const {
        const std::uint32_t real_begin = std::max(entry, shape.lead) - entry + begin;
        const std::uint32_t real_end = std::max(entry, shape.lead + shape.entries) - entry + begin;
        const std::uint32_t first = std::min(real_begin, end);
        const std::uint32_t last = std::clamp(real_end, first, end);
        pad(column, begin, first);
        if (first < last) copy(row + (entry + (first - begin) - shape.lead), column, first, last);
        pad(column, last, end);
    }

    // All places of some tiles; the last tile's may be more than there are blocks for.
    void lay_tiles(const Element* row, std::uint32_t column, std::uint32_t first_tile,
                   std::uint32_t end_tile) const {
        const std::uint32_t begin = first_tile * shape.tile;
        const std::uint32_t end = std::min(end_tile * shape.tile, shape.places());
        if (shape.order == nullptr) {
            lay_run(row, column, begin, end, begin);
        } else {
            for (std::uint32_t place = begin; place < end;) {
                const std::uint32_t within = place % proto::kBlockIds;
                const std::uint32_t next = std::min(end, place - within + proto::kBlockIds);
                const std::uint32_t block = shape.order[place / proto::kBlockIds];
                lay_run(row, column, place, next, block * proto::kBlockIds + within);
                place = next;
            }
        }
        pad(column, end, std::max(end, end_tile * shape.tile));
    }

    void lay(std::uint32_t first_column, std::span<const void* const> rows) const {
        const std::uint32_t end_column = first_column + static_cast<std::uint32_t>(rows.size());
        const std::uint32_t tiles = (shape.places() + shape.tile - 1) / shape.tile;
        const std::size_t tile_bytes = std::size_t{shape.columns} * shape.tile * sizeof(Element);
        // At least a cache line of each row, so that no line of it is fetched twice.
        const std::size_t line = std::max<std::size_t>(64 / (shape.tile * sizeof(Element)), 1);
        const auto together = static_cast<std::uint32_t>(std::max(kCachedBytes / tile_bytes, line));
        for (std::uint32_t begin = 0; begin < tiles; begin += together) {
            const std::uint32_t end = std::min(begin + together, tiles);
            for (std::uint32_t i = 0; i < rows.size(); ++i) {
                lay_tiles(static_cast<const Element*>(rows[i]), first_column + i, begin, end);
            }
            // After all copies of these tiles, not between them: there it would delay the fetching of the
            // rows.
            if (slice.maxima != nullptr) lay_maxima(shape, slice, {begin, end, first_column, end_column});
        }
    }
};

template <typename Element>
void lay_elements(const SliceShape& shape, std::uint32_t first_column, std::span<const void* const> rows,
                  const SliceMemory& slice) {
    const auto padding = static_cast<Element>(minus_infinity(shape.dtype));
    Layer<Element>{shape, slice, padding}.lay(first_column, rows);
}

}  // namespace

SliceShape slice_shape(const proto::Geometry& geometry, std::uint32_t rank, std::uint32_t columns,
                       std::span<const std::uint32_t> order) {
    const proto::RankShard& shard = geometry.shards[rank];
    return {geometry.dtype,
            geometry.tile,
            columns,
            shard.first_id % proto::kBlockIds,
            geometry.real_ids(rank),
            shard.blocks(),
            order.empty() ? nullptr : order.data()};
}

void lay_rows(const SliceShape& shape, std::uint32_t first_column, std::span<const void* const> rows,
              const SliceMemory& slice) {
    if (proto::element_bytes(shape.dtype) == 2) {
        lay_elements<std::uint16_t>(shape, first_column, rows, slice);
    } else {
        lay_elements<std::uint32_t>(shape, first_column, rows, slice);
    }
}

}  // namespace croupier::gpu_writer

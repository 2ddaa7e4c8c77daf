#include "gpu_writer/tile_layout.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "gpu_writer/tile_maxima.h"

namespace croupier::gpu_writer {
namespace {

// What one block of tiles writes should stay in the first-level cache until its lines are full.
constexpr std::size_t kBlockBytes = std::size_t{16} * 1024;

template <typename Element>
struct Layer {
    const SliceShape& shape;
    const SliceMemory& slice;
    Element padding;

    Element* tile_start(std::uint32_t tile, std::uint32_t column) const {
        return static_cast<Element*>(slice.elements) +
               (std::size_t{tile} * shape.columns + column) * shape.tile;
    }

    void lay_full_tiles(const Element* row, std::uint32_t column, std::uint32_t begin,
                        std::uint32_t end) const {
        const std::size_t stride = std::size_t{shape.columns} * shape.tile;
        const Element* from = row + std::size_t{begin} * shape.tile;
        Element* to = tile_start(begin, column);
        if (shape.tile == 1) {
            for (std::uint32_t tile = begin; tile < end; ++tile, ++from, to += stride) *to = *from;
            return;
        }
        for (std::uint32_t tile = begin; tile < end; ++tile, from += shape.tile, to += stride) {
            std::memcpy(to, from, shape.tile * sizeof(Element));
        }
    }

    void lay_last_tile(const Element* row, std::uint32_t column, std::uint32_t full_tiles) const {
        const std::uint32_t left = shape.entries - full_tiles * shape.tile;
        Element* to =
            std::copy_n(row + std::size_t{full_tiles} * shape.tile, left, tile_start(full_tiles, column));
        std::fill_n(to, shape.tile - left, padding);
    }

    void summarise(const LaidTiles& laid) const {
        if (slice.maxima != nullptr) lay_maxima(shape, slice, laid);
    }

    void lay(std::uint32_t first_column, std::span<const void* const> rows) const {
        const std::uint32_t end_column = first_column + static_cast<std::uint32_t>(rows.size());
        const std::uint32_t full_tiles = shape.entries / shape.tile;
        const std::size_t tile_bytes = std::size_t{shape.columns} * shape.tile * sizeof(Element);
        // At least a cache line of each row, so that no line of it is fetched twice.
        const std::size_t line = std::max<std::size_t>(64 / (shape.tile * sizeof(Element)), 1);
        const auto block = static_cast<std::uint32_t>(std::max(kBlockBytes / tile_bytes, line));
        for (std::uint32_t begin = 0; begin < full_tiles; begin += block) {
            const std::uint32_t end = std::min(begin + block, full_tiles);
            for (std::uint32_t i = 0; i < rows.size(); ++i) {
                lay_full_tiles(static_cast<const Element*>(rows[i]), first_column + i, begin, end);
            }
            // After all copies of the block, not between them: there it would delay the fetching of the rows.
            summarise({begin, end, first_column, end_column});
        }
        if (full_tiles * shape.tile == shape.entries) return;
        for (std::uint32_t i = 0; i < rows.size(); ++i) {
            lay_last_tile(static_cast<const Element*>(rows[i]), first_column + i, full_tiles);
        }
        summarise({full_tiles, full_tiles + 1, first_column, end_column});
    }
};

template <typename Element>
void lay_elements(const SliceShape& shape, std::uint32_t first_column, std::span<const void* const> rows,
                  const SliceMemory& slice) {
    const auto padding = static_cast<Element>(minus_infinity(shape.dtype));
    Layer<Element>{shape, slice, padding}.lay(first_column, rows);
}

}  // namespace

void lay_rows(const SliceShape& shape, std::uint32_t first_column, std::span<const void* const> rows,
              const SliceMemory& slice) {
    if (proto::element_bytes(shape.dtype) == 2) {
        lay_elements<std::uint16_t>(shape, first_column, rows, slice);
    } else {
        lay_elements<std::uint32_t>(shape, first_column, rows, slice);
    }
}

}  // namespace croupier::gpu_writer

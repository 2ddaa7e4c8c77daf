// The summaries of a slice: the largest logit of each tile and column.
#pragma once

#include <cstdint>

#include "gpu_writer/tile_layout.h"

namespace croupier::gpu_writer {

// A rectangle of tiles that are laid already.
struct LaidTiles {
    std::uint32_t first_tile = 0;
    std::uint32_t end_tile = 0;
    std::uint32_t first_column = 0;
    std::uint32_t end_column = 0;
};

// Reads the tiles in the slice, of which padding is -inf. A tile that holds a NaN has a NaN for its maximum.
void lay_maxima(const SliceShape& shape, const SliceMemory& slice, const LaidTiles& tiles);

}  // namespace croupier::gpu_writer

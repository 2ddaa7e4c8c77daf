// How a slice is cut into copies. Each costs the worker's thread some microseconds of calls and the copy
// engine about one, so most are long; the first tiles are wanted soon, and what samplers have still to read
// when the last byte is there is the last chunk.
#pragma once

#include <algorithm>
#include <cstdint>

namespace croupier::gpu_writer {

constexpr std::uint64_t kFirstChunk = std::uint64_t{256} * 1024;
constexpr std::uint64_t kChunkGrowth = 4;
constexpr std::uint64_t kMostChunk = std::uint64_t{16} * 1024 * 1024;
constexpr std::uint64_t kLastChunk = std::uint64_t{2} * 1024 * 1024;

constexpr std::uint32_t tiles_in(std::uint64_t bytes, std::uint64_t tile_row_bytes) {
    return static_cast<std::uint32_t>(std::max<std::uint64_t>(bytes / tile_row_bytes, 1));
}

// Where the chunk from tile `first` on ends, whose predecessor was cut to so many bytes; they become this
// one's.
constexpr std::uint32_t chunk_end(std::uint32_t first, std::uint32_t tiles, std::uint64_t tile_row_bytes,
                                  std::uint64_t& bytes) {
    bytes = std::min(bytes * kChunkGrowth, kMostChunk);
    const std::uint32_t left = tiles - first;
    const std::uint32_t last = tiles_in(kLastChunk, tile_row_bytes);
    const std::uint32_t wanted = tiles_in(bytes, tile_row_bytes);
    if (left <= last) return tiles;
    if (left - last <= wanted) return tiles - last;
    return first + wanted;
}

}  // namespace croupier::gpu_writer

#include "proto/lean_part.h"

#include "proto/request_cell.h"

namespace croupier::proto {
namespace {

constexpr std::size_t kLine = 64;

constexpr std::size_t whole_lines(std::size_t bytes) {
    return (bytes + kLine - 1) / kLine * kLine;
}

}  // namespace

LeanLayout lean_layout_of(const Geometry& geometry, std::uint32_t rank) {
    const std::size_t element = element_bytes(geometry.dtype);
    const std::size_t columns = geometry.max_batch;
    LeanLayout layout;
    layout.maxima_stride = whole_lines(geometry.shards[rank].blocks() * element);
    layout.blocks_stride = whole_lines(geometry.lean_blocks * sizeof(std::uint16_t));
    layout.block_bytes = kBlockIds * element;
    layout.elements_stride = geometry.lean_blocks * layout.block_bytes;
    layout.maxima = layout.heads + columns * sizeof(LeanHead);
    layout.blocks = layout.maxima + columns * layout.maxima_stride;
    layout.elements = layout.blocks + columns * layout.blocks_stride;
    layout.bytes = layout.elements + columns * layout.elements_stride;
    return layout;
}

RequestLayout request_layout_of(const Geometry& geometry) {
    RequestLayout layout;
    layout.answers = sizeof(RequestCell);
    layout.bits = layout.answers + whole_lines(geometry.tp * sizeof(std::uint64_t));
    layout.words = (geometry.blocks() + 63) / 64;
    layout.stride = layout.bits + whole_lines(layout.words * sizeof(std::uint64_t));
    return layout;
}

}  // namespace croupier::proto

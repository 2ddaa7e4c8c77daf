#include "sampler/dry_edges.h"

#include <algorithm>

#include "sampler/growing.h"

namespace croupier::sampler {

void DryEdges::clear() {
    edges_.clear();
    unused_.fill(kNone);
}

void DryEdges::add(Block& block, std::uint32_t token, std::uint32_t to) {
    if (block.count == 0) {
        block.bits = 0;
        block.offset = take(0);
    } else {
        // Past three quarters a table's searches grow long; a list may be full.
        const std::uint32_t room = 1U << block.bits;
        if (block.count == (listed(block) ? room : room / 4 * 3)) widen(block);
    }
    put(block, {token, to});
}

void DryEdges::put(Block& block, Edge edge) {
    const std::uint32_t at = listed(block) ? block.offset + block.count : hashed_place(block, edge.token);
    edges_[at] = edge;
    ++block.count;
}

void DryEdges::widen(Block& block) {
    Block wider = block;
    wider.count = 0;
    ++wider.bits;
    wider.offset = take(wider.bits);
    if (!listed(wider)) std::fill_n(edges_.begin() + wider.offset, 1U << wider.bits, Edge{kNone, kNone});
    const std::uint32_t places = 1U << block.bits;
    for (std::uint32_t at = block.offset; at < block.offset + places; ++at) {
        if (edges_[at].token != kNone) put(wider, edges_[at]);
    }
    give_back(block.offset, block.bits);
    block = wider;
}

void DryEdges::remove(Block& block, std::uint32_t token) {
    const std::uint32_t at = place_of(block, token);
    if (block.count == 1) {
        release(block);
        return;
    }
    --block.count;
    if (listed(block)) {
        edges_[at] = edges_[block.offset + block.count];
    } else {
        unhash(block, at);
    }
}

std::uint32_t DryEdges::hashed_place(const Block& block, std::uint32_t token) const {
    std::uint32_t place = home(block, token);
    while (true) {
        const Edge& edge = edges_[block.offset + place];
        if (edge.token == token || edge.token == kNone) return block.offset + place;
        place = (place + 1) & mask(block);
    }
}

// Draws nearer what stands behind it and may stand there, so that no search ends too early.
void DryEdges::unhash(const Block& block, std::uint32_t at) {
    Edge* const table = edges_.data() + block.offset;
    std::uint32_t empty = at - block.offset;
    for (std::uint32_t place = (empty + 1) & mask(block); table[place].token != kNone;
         place = (place + 1) & mask(block)) {
        const std::uint32_t from_home = (place - home(block, table[place].token)) & mask(block);
        if (from_home < ((place - empty) & mask(block))) continue;
        table[empty] = table[place];
        empty = place;
    }
    table[empty].token = kNone;
}

DryEdges::Block DryEdges::copy(const Block& block) {
    if (block.count == 0) return {};
    Block made = block;
    made.offset = take(block.bits);
    std::copy_n(edges_.begin() + block.offset, 1U << block.bits, edges_.begin() + made.offset);
    return made;
}

void DryEdges::release(Block& block) {
    if (block.count != 0) give_back(block.offset, block.bits);
    block = {};
}

std::uint32_t DryEdges::take(std::uint32_t bits) {
    if (const std::uint32_t offset = unused_[bits]; offset != kNone) {
        unused_[bits] = edges_[offset].to;
        return offset;
    }
    const std::size_t offset = edges_.size();
    const std::size_t size = offset + (std::size_t{1} << bits);
    reserve_growing(edges_, size);
    edges_.resize(size);
    return static_cast<std::uint32_t>(offset);
}

void DryEdges::give_back(std::uint32_t offset, std::uint32_t bits) {
    edges_[offset].to = unused_[bits];
    unused_[bits] = offset;
}

std::size_t DryEdges::bytes() const {
    return bytes_of(edges_);
}

}  // namespace croupier::sampler

// The edges of the automaton's states, in blocks: those of one state lie side by side, so that a question
// about a state costs the cache line or two that hold them, however large the automaton is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace croupier::sampler {

class DryEdges {
  public:
    static constexpr std::uint32_t kNone = ~std::uint32_t{0};

    // One state's, which keeps this in itself. A block of up to kListed edges is a list, a larger one a hash
    // table.
    struct Block {
        std::uint32_t offset = 0;
        std::uint32_t count : 27 = 0;
        std::uint32_t bits : 5 = 0;  // it has room for 1 << bits; nothing while count is 0
    };

    void clear();

    // Where the edge leads; kNone: there is none.
    std::uint32_t find(const Block& block, std::uint32_t token) const {
        const std::uint32_t at = place_of(block, token);
        return at == kNone ? kNone : edges_[at].to;
    }
    void lead(const Block& block, std::uint32_t token, std::uint32_t to) {
        edges_[place_of(block, token)].to = to;
    }
    void add(Block& block, std::uint32_t token, std::uint32_t to);
    void remove(Block& block, std::uint32_t token);
    Block copy(const Block& block);
    void release(Block& block);

    template <typename Visit>
    void for_each(const Block& block, Visit visit) const {
        if (block.count == 0) return;
        const std::uint32_t places = listed(block) ? block.count : 1U << block.bits;
        for (std::uint32_t at = block.offset; at < block.offset + places; ++at) {
            if (edges_[at].token != kNone) visit(edges_[at].token);
        }
    }
    void prefetch(const Block& block) const { __builtin_prefetch(edges_.data() + block.offset); }

    std::size_t bytes() const;

  private:
    static constexpr std::uint32_t kListedBits = 3;
    static constexpr std::uint32_t kMostBits = 22;  // three quarters of it hold any vocabulary

    struct Edge {
        std::uint32_t token;
        std::uint32_t to;
    };

    static bool listed(const Block& block) { return block.bits <= kListedBits; }
    // Multiplicative hashing: the product's high bits depend on all bits of the token.
    static std::uint32_t home(const Block& block, std::uint32_t token) {
        return token * 0x9E3779B1U >> (32U - block.bits);
    }
    static std::uint32_t mask(const Block& block) { return (1U << block.bits) - 1; }
    std::uint32_t place_of(const Block& block, std::uint32_t token) const;
    std::uint32_t hashed_place(const Block& block, std::uint32_t token) const;
    void put(Block& block, Edge edge);
    void unhash(const Block& block, std::uint32_t at);
    void widen(Block& block);
    std::uint32_t take(std::uint32_t bits);
    void give_back(std::uint32_t offset, std::uint32_t bits);

    std::vector<Edge> edges_;
    std::array<std::uint32_t, kMostBits + 1> unused_;  // by bits: the first such block; a block's first edge
                                                       // leads to the next
};

inline std::uint32_t DryEdges::place_of(const Block& block, std::uint32_t token) const {
    if (block.count == 0) return kNone;
    if (!listed(block)) {
        const std::uint32_t at = hashed_place(block, token);
        return edges_[at].token == token ? at : kNone;
    }
    for (std::uint32_t at = block.offset; at < block.offset + block.count; ++at) {
        if (edges_[at].token == token) return at;
    }
    return kNone;
}

}  // namespace croupier::sampler

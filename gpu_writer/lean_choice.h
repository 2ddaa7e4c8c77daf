// Which blocks a lean step sends of a column: what the host and the GPU compute alike, bit for bit.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "gpu_writer/lean_wants.h"
#include "proto/geometry.h"
#include "proto/lean_part.h"
#include "proto/race.h"

namespace croupier::gpu_writer {

// Numbers that ascend as values do; NaN is above +inf.
constexpr std::uint32_t rank_of(float value) {
    if (value != value) return 0xFFFFFFFFU;
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}
constexpr float value_of_rank(std::uint32_t rank) {
    return std::bit_cast<float>((rank & 0x80000000U) != 0 ? rank ^ 0x80000000U : ~rank);
}
// Blocks of this rank are not chosen: all of their entries are -inf.
constexpr std::uint32_t kEmptyRank = rank_of(-std::numeric_limits<float>::infinity());

// By the bound of all that the block's members may score, of its largest entry. There is one zero, as scores
// compare.
constexpr std::uint32_t race_rank(std::uint32_t maximum_rank, float temperature, float ln_first) {
    if (maximum_rank <= kEmptyRank) return kEmptyRank;
    return rank_of(proto::race::score(value_of_rank(maximum_rank), temperature, ln_first) + 0.0F);
}

// Of a rank's blocks, where its entries begin and end within them.
struct BlockSpan {
    std::uint32_t lead = 0;
    std::uint32_t entries = 0;
    std::uint32_t blocks = 0;

    // Sent in any case, even if all is -inf: other ranks may hold the rest of it.
    constexpr bool always_sent(std::uint32_t block) const {
        return (block == 0 && lead != 0) || (block + 1 == blocks && ends_early());
    }
    constexpr std::uint32_t always_sent() const {
        if (blocks == 0) return 0;
        if (blocks == 1) return always_sent(0) ? 1 : 0;
        return (lead != 0 ? 1U : 0U) + (ends_early() ? 1U : 0U);
    }

  private:
    constexpr bool ends_early() const { return lead + entries != blocks * proto::kBlockIds; }
};

// How many of a column's blocks are chosen in each way, if as many have an entry above -inf.
struct LeanShares {
    std::uint32_t by_maximum = 0;
    std::uint32_t by_race = 0;
};
constexpr LeanShares shares_of(const LeanWant& want, const BlockSpan& span, std::uint32_t room) {
    if ((want.flags & kWhole) != 0) return {};
    const std::uint32_t left = room - std::min(room, span.always_sent());
    const std::uint32_t by_maximum = std::min(want.by_maximum, left);
    const bool races = want.temperature > 0.0F;
    return {by_maximum, races ? std::min(want.by_race, left - by_maximum) : 0U};
}

// From the logarithm of what a block's entries weigh, in units of the largest one's weight: never more than
// that is, though the sum and its logarithm are a little off. NaN, and what no block weighs, is 0.
constexpr std::uint8_t code_of_weight(float log2_of_weight) {
    constexpr float kOff = 0.001F;
    constexpr float kMost = 6.01F;
    if (!(log2_of_weight > kOff && log2_of_weight < kMost)) return 0;
    return static_cast<std::uint8_t>((log2_of_weight - kOff) * static_cast<float>(proto::kWeightSteps));
}

// How many of a column's blocks have no room because what each block weighs takes it; 0: it is not sent.
constexpr std::uint32_t weights_room(const LeanWant& want, std::uint32_t blocks, std::uint32_t room,
                                     std::size_t element_bytes) {
    constexpr std::uint32_t kAsked = kWeighBlocks | kSumAtScale;
    if ((want.flags & (kAsked | kWhole)) != kAsked || blocks == 0) return 0;
    const std::size_t block_bytes = proto::kBlockIds * element_bytes;
    const auto taken =
        static_cast<std::uint32_t>((proto::block_weights_bytes(blocks) + block_bytes - 1) / block_bytes);
    return 2 * taken <= room ? taken : 0;
}

// What is made of a column.
struct ColumnPlan {
    LeanShares shares;
    bool weighs;  // each block, unless the column is drawn
    bool races;   // the blocks' ranks in the race are needed: for a choice among them, or for a draw

    constexpr ColumnPlan(const LeanWant& want, const BlockSpan& span, std::uint32_t room,
                         std::size_t element_bytes) {
        const std::uint32_t taken = weights_room(want, span.blocks, room, element_bytes);
        shares = shares_of(want, span, room - taken);
        weighs = taken > 0;
        races = shares.by_race > 0 || ((want.flags & kDraw) != 0 && want.temperature > 0.0F);
    }
};

}  // namespace croupier::gpu_writer

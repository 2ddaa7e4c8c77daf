// Which blocks a lean step sends of a column: what the host and the GPU compute alike, bit for bit.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "gpu_writer/lean_wants.h"
#include "proto/geometry.h"
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

// Whether the blocks' ranks in the race are needed: for a choice among them, or for a draw.
constexpr bool blocks_race(const LeanWant& want, const LeanShares& shares) {
    return shares.by_race > 0 || ((want.flags & kDraw) != 0 && want.temperature > 0.0F);
}

}  // namespace croupier::gpu_writer

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

// The lowest rank of a block that is chosen by maximum, where the highest of all ranks is `top`.
constexpr std::uint32_t least_rank(std::uint32_t top, float reach) {
    if (!(reach < std::numeric_limits<float>::infinity())) return kEmptyRank + 1;
    const std::uint32_t least = rank_of(value_of_rank(top) - reach);
    return least > kEmptyRank ? least : kEmptyRank + 1;
}

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

// A GPU has no address of a constant: where one is taken, as std::min() does, the kernel traps.
constexpr std::uint32_t copy_of(std::uint32_t constant) {
    return constant;
}

// How many of a column's blocks are chosen in one way, if as many have an entry above -inf: all that are
// above some rank which `least` to `most` of them are above. Where there is no such rank, `wanted` of them.
struct LeanShare {
    std::uint32_t wanted;
    std::uint32_t least;
    std::uint32_t most;

    static constexpr LeanShare about(std::uint32_t wanted, std::uint32_t spare) {
        // Fewer than what request/wants.cpp adds to a top-k.
        constexpr std::uint32_t kFewer = 16;
        constexpr std::uint32_t kMore = 8;
        constexpr std::uint32_t kFew = 4;
        if (wanted == 0) return {0, 0, 0};
        return {wanted, wanted - wanted / kFewer, wanted + std::min(spare, std::max(wanted / kMore, kFew))};
    }
    static constexpr LeanShare at_least(std::uint32_t wanted, std::uint32_t most) {
        return {wanted, wanted, most};
    }
    constexpr bool holds(std::uint32_t count) const { return least <= count && count <= most; }
};
struct LeanShares {
    LeanShare by_maximum;
    LeanShare by_race;
};
constexpr bool sums_spread(const LeanWant& want) {
    return want.flags.has(Want::spread) && !want.flags.has(Want::whole);
}

// Of the race's winner what stands before it is summed, and of the next one that stands before that: who is
// left where a top-p drops the winner. Which these are, and how many.
constexpr std::uint32_t kMostWeighed = 2;
constexpr std::uint32_t weighed_racers(const proto::Racers& racers, std::uint32_t (&which)[kMostWeighed]) {
    const proto::Racer& winner = racers.best[0];
    which[0] = which[1] = 0;
    for (std::uint32_t i = 1; i < racers.count; ++i) {
        const proto::Racer& each = racers.best[i];
        if (each.logit < winner.logit || (each.logit == winner.logit && each.token > winner.token)) continue;
        which[1] = i;
        return 2;
    }
    return 1;
}

constexpr bool sends_racers(const LeanWant& want) {
    return want.flags.has(Want::racers) && !want.flags.has_any(Want::draw | Want::whole) &&
           want.temperature > 0.0F && want.by_race > 0;
}

constexpr bool lists_entries(const LeanWant& want) {
    return want.flags.has(Want::best_entries) && !want.flags.has(Want::whole);
}
// So many entries are above the largest of what is not opened, at least: each block that is has one.
constexpr LeanShare opened_for_entries(std::uint32_t wanted) {
    constexpr std::uint32_t kMore = 8;
    constexpr std::uint32_t kFew = 4;
    return LeanShare::at_least(wanted, wanted + std::max(wanted / kMore, copy_of(kFew)));
}

constexpr LeanShares shares_of_blocks(const LeanWant& want, const BlockSpan& span, std::uint32_t room) {
    const std::uint32_t left =
        room - std::min(room, span.always_sent() + request::blocks_for_named(want.named));
    const std::uint32_t by_maximum =
        lists_entries(want) ? 0U : std::min<std::uint32_t>(want.by_maximum, left);
    if (sends_racers(want)) {
        // Of fewer blocks, more of them would have more tokens above the bound of the others than are of use.
        constexpr std::uint32_t kMostOpened = 512;
        constexpr std::uint32_t kSome = 32;
        const std::uint32_t most = std::clamp(span.blocks / 8, copy_of(kSome), copy_of(kMostOpened));
        const std::uint32_t opened = std::min<std::uint32_t>(want.by_race, most);
        return {LeanShare::about(by_maximum, left - by_maximum), LeanShare::about(opened, opened)};
    }
    const bool races = want.temperature > 0.0F;
    const std::uint32_t by_race = races ? std::min<std::uint32_t>(want.by_race, left - by_maximum) : 0U;
    const std::uint32_t spare = left - by_maximum - by_race;
    const LeanShare first = LeanShare::about(by_maximum, spare);
    return {first, LeanShare::about(by_race, spare - (first.most - first.wanted))};
}
constexpr LeanShares shares_of(const LeanWant& want, const BlockSpan& span, std::uint32_t room) {
    if (want.flags.has(Want::whole)) return {};
    LeanShares shares = shares_of_blocks(want, span, room);
    if (lists_entries(want)) shares.by_maximum = opened_for_entries(want.by_maximum);
    return shares;
}

// Seeks the rank above which about as many blocks are as a share wants: whoever counts them asks for two
// ranks at a time and says how many are above each. It ends on the same rank wherever it is done.
class RankSearch {
  public:
    // `top` is the largest of the ranks; those below `least` are not chosen.
    constexpr RankSearch(const LeanShare& share, std::uint32_t top, std::uint32_t least)
        : share_(share), low_(least - 2), high_(std::max(top, least - 1)), nothing_(least - 1) {
        if (share_.wanted == 0) {
            end(high_, 0);
        } else {
            const std::uint32_t between = high_ - low_ - 1;
            probe(high_ - std::min(copy_of(kQuarter), between), high_ - std::min(copy_of(kHalf), between));
        }
    }

    constexpr bool ended() const { return ended_; }
    // Ask for these; the second is not below the first.
    constexpr std::uint32_t first() const { return first_; }
    constexpr std::uint32_t second() const { return second_; }
    constexpr void take(std::uint32_t above_first, std::uint32_t above_second) {
        if (share_.holds(above_second)) return end(second_, 0);
        if (share_.holds(above_first)) return end(first_, 0);
        if (above_second > share_.most) {
            low_ = second_;
        } else if (above_first > share_.most) {
            low_ = first_;
            high_ = second_;
            above_high_ = above_second;
        } else {
            high_ = first_;
            above_high_ = above_first;
        }
        const std::uint32_t apart = high_ - low_;
        if (apart > 1) return probe(low_ + std::max(apart / 3, 1U), high_ - std::max(apart / 3, 1U));
        // Not more blocks than are wanted, or so many of the rank `high_` that some of them are chosen.
        end(high_, high_ == nothing_ ? 0 : share_.wanted - above_high_);
    }

    // Once ended: chosen are the blocks of higher ranks, and of this rank so many.
    constexpr std::uint32_t rank() const { return high_; }
    constexpr std::uint32_t ties() const { return ties_; }
    // Above this one there are enough, if so many have a rank.
    constexpr std::uint32_t enough_above() const { return ties_ > 0 ? high_ - 1 : high_; }

  private:
    // So far below a positive value's rank is that of half of it, or of a quarter.
    static constexpr std::uint32_t kHalf = 1U << 23U;
    static constexpr std::uint32_t kQuarter = 1U << 24U;

    constexpr void probe(std::uint32_t first, std::uint32_t second) {
        first_ = first;
        second_ = second;
    }
    constexpr void end(std::uint32_t rank, std::uint32_t ties) {
        high_ = rank;
        ties_ = ties;
        ended_ = true;
    }

    LeanShare share_;
    // Above `low_` there are too many, or nobody asked; above `high_` too few.
    std::uint32_t low_;
    std::uint32_t high_;
    std::uint32_t nothing_;  // the highest rank of those that are not chosen
    std::uint32_t above_high_ = 0;
    std::uint32_t first_ = 0;
    std::uint32_t second_ = 0;
    std::uint32_t ties_ = 0;
    bool ended_ = false;
};

// Whether a list of so many entries has all that are within reach of the largest one, and a search does not
// give up for their number: then it needs no race.
constexpr bool lists_reach(const LeanWant& want, std::uint32_t top, std::uint32_t bar, std::uint32_t count) {
    return want.reach < std::numeric_limits<float>::infinity() && bar < least_rank(top, want.reach) &&
           count <= copy_of(request::kMostSearched);
}

// Among entries, of which more than have room are above `bar`.
constexpr RankSearch search_among(std::uint32_t wanted, std::uint32_t room, std::uint32_t top,
                                  std::uint32_t bar) {
    return {LeanShare::at_least(wanted < room ? wanted : room, room), top, bar + 1};
}

// From the logarithm of what a block's entries weigh, in units of the largest one's weight: never more than
// that is, though the sum and its logarithm are a little off. NaN, and what no block weighs, is 0.
constexpr std::uint8_t code_of_weight(float log2_of_weight) {
    constexpr float kOff = 0.001F;
    constexpr float kMost = 6.01F;
    if (!(log2_of_weight > kOff && log2_of_weight < kMost)) return 0;
    return static_cast<std::uint8_t>((log2_of_weight - kOff) * static_cast<float>(proto::kWeightSteps));
}

// In how many blocks' room something fits.
constexpr std::uint32_t blocks_for(std::size_t bytes, std::size_t element_bytes) {
    const std::size_t block_bytes = proto::kBlockIds * element_bytes;
    return static_cast<std::uint32_t>((bytes + block_bytes - 1) / block_bytes);
}

// Whether what each block weighs is asked for and leaves room for blocks.
constexpr bool weighs_blocks(const LeanWant& want, std::uint32_t blocks, std::uint32_t room,
                             std::size_t element_bytes) {
    const bool asked = want.flags.has(Want::block_weights) && want.flags.has(Want::sum_at_scale);
    if (!asked || want.flags.has_any(Want::spread | Want::whole) || blocks == 0) return false;
    return 2 * blocks_for(proto::block_weights_bytes(blocks), element_bytes) <= room;
}

// What is made of a column.
struct ColumnPlan {
    LeanShares shares;
    bool weighs;        // each block, unless the column is drawn
    bool races;         // the blocks' ranks in the race are needed: for a choice among them, or for a draw
    bool racers;        // the blocks that are chosen by the race are opened, not sent
    bool lists;         // likewise those by maximum
    std::size_t taken;  // bytes at the end of the room

    constexpr ColumnPlan(const LeanWant& want, const BlockSpan& span, std::uint32_t room,
                         std::size_t element_bytes) {
        weighs = weighs_blocks(want, span.blocks, room, element_bytes);
        racers = sends_racers(want);
        lists = lists_entries(want);
        // The racers leave room behind them for a spread.
        taken = weighs ? proto::block_weights_bytes(span.blocks) : 0;
        if (sums_spread(want) || (racers && !weighs)) taken += sizeof(proto::LeanSpread);
        if (racers) taken += sizeof(proto::Racers);
        shares = shares_of(want, span, room - blocks_for(taken, element_bytes));
        const bool draws = want.flags.has(Want::draw) && want.temperature > 0.0F;
        races = shares.by_race.wanted > 0 || draws;
    }
};

}  // namespace croupier::gpu_writer

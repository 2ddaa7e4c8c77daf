// What a rank sends of a step's rows where it keeps the rows themselves: the largest entry of every block,
// some blocks whole, and sums (docs/decisions/0020-a-lean-transport.md). Blocks are counted from the rank's
// first one, in the order of their ids.
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/flags.h"
#include "proto/geometry.h"
#include "proto/race.h"
#include "proto/racers.h"
#include "proto/row_spread.h"

namespace croupier::proto {

// Of a column: the session's `lean_blocks` is a multiple, and so large at most.
constexpr std::uint32_t kLeanGranule = 32;
constexpr std::uint32_t kMostLeanBlocks = 1024;
// Where nothing else is asked for: a column that needs more is seldom, or has no bound.
constexpr std::uint32_t kUsualLeanBlocks = 128;

constexpr std::uint32_t kWeightSteps = 40;  // 64 entries weigh 64 at most, and so 240

// What stands in a column's part of the step.
enum class Sent : std::uint32_t {
    // The column stands in the slice as well, whole, as in a step of rows.
    whole_row = 1U << 0U,
    // The head has the winner among the rank's ids; no block was sent. Never of a row with NaN or +inf.
    draw_alone = 1U << 1U,
    // At the end of the room for its blocks the column has a byte for each block of the rank: what its
    // entries weigh together at least, each exp(x * scale), in units of its largest one's weight:
    // 2^(byte / kWeightSteps).
    weighed_blocks = 1U << 2U,
    // The head has the winner among the rank's ids as they stand, and what none of the others scores more
    // than; blocks were sent beside. Never of a row with NaN or +inf.
    draw_beside = 1U << 3U,
    // There the column has its spread instead, at the head's scale; of a row with NaN or +inf without tokens.
    row_spread = 1U << 4U,
    // Beside a draw: before the column's spread, or before what its blocks weigh, stand its racers, of which
    // the draw's winner is the first. No block was sent for its place in the race.
    race_best = 1U << 5U,
    // All that is told of the column, but for the blocks themselves, is of what the column's grammar mask
    // allows: maxima, sums, what each block weighs, its spread. A NaN or +inf that the mask hides is told of
    // all the same.
    under_mask = 1U << 6U,
    // No entry of the rank that counts is above -inf: it has no token in the race, and no block was sent but
    // those that ranks share.
    nothing = 1U << 7U,
    // Behind the blocks that were sent, the column's best entries are listed: see BestEntries.
    best_entries = 1U << 8U,
    // Behind the blocks that were sent, and before such a list, stand the logits of the ids that the request
    // names: see NamedValues.
    named_values = 1U << 9U,
};
using SentFlags = Flags<Sent>;
constexpr SentFlags operator|(Sent a, Sent b) {
    return SentFlags(a) | SentFlags(b);
}

constexpr std::size_t block_weights_bytes(std::size_t blocks) {
    return (blocks + 15) / 16 * 16;
}

struct alignas(64) LeanHead {
    SentFlags flags;
    std::uint32_t sent;  // blocks
    // What the rank's entries above -inf weigh together, in units of the largest one's weight: each exp(x),
    // and each exp(x * scale). 0: it was not summed.
    double weight;
    double weight_at_scale;
    double scale;
    race::Draw draw;  // with draw_alone or draw_beside
};
static_assert(sizeof(LeanHead) == 64 && offsetof(LeanHead, draw) == 32);

struct alignas(64) LeanSpread {
    RowSpread of;
};
static_assert(sizeof(LeanSpread) == 64);

// Before a code for each id of a list, in its order: as they stand in the row, those of other ranks -inf.
struct alignas(16) NamedValues {
    std::uint32_t count;
    std::uint32_t word;  // of the ids
    std::uint32_t reserved[2];
};
static_assert(sizeof(NamedValues) == 16);

// A hash by which a different list is noticed; it does not protect against a malicious writer.
template <typename IdAt>
constexpr std::uint32_t word_of_ids(std::uint32_t count, IdAt id_at) {
    constexpr std::uint32_t kFactor = 0x9E3779B1U;
    std::uint32_t word = count;
    for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint32_t mixed = static_cast<std::uint32_t>(id_at(i)) * kFactor;
        word += (mixed ^ mixed >> 15U) * (2 * i + 1);
    }
    return word;
}

// Entries of the rank, in no order: all that count and are above a value.
struct BestEntry {
    std::uint32_t token;
    float logit;
};
static_assert(sizeof(BestEntry) == 8);

// Stands before them.
struct alignas(16) BestEntries {
    float above;
    std::uint32_t count;
};
static_assert(sizeof(BestEntries) == 16);

// With race_best, of a rank of so many blocks: how far before the end of the column's room its racers begin.
constexpr std::size_t racers_before_end(SentFlags flags, std::size_t of_rank) {
    const bool weighs = flags.has(Sent::weighed_blocks);
    return sizeof(Racers) + (weighs ? block_weights_bytes(of_rank) : sizeof(LeanSpread));
}

// Where the parts lie in a rank's bytes of a slot. Each is by column of the largest batch.
struct LeanLayout {
    std::size_t heads = 0;
    std::size_t maxima = 0;         // codes of the session's dtype, one a block; NaN where the block has one
    std::size_t maxima_stride = 0;  // bytes from column to column
    std::size_t blocks = 0;         // std::uint16_t each: which were sent
    std::size_t blocks_stride = 0;
    std::size_t elements = 0;  // kBlockIds codes each
    std::size_t elements_stride = 0;
    std::size_t block_bytes = 0;
    std::size_t bytes = 0;

    // Whether the head says that they are there, and they have room, whatever it says.
    constexpr bool has_block_weights(SentFlags flags, std::size_t of_rank) const {
        return flags.has(Sent::weighed_blocks) && block_weights_bytes(of_rank) <= elements_stride;
    }
    constexpr bool has_racers(SentFlags flags, std::size_t of_rank) const {
        return flags.has(Sent::race_best) && racers_before_end(flags, of_rank) <= elements_stride;
    }

    // With named_values, of a column of which so many blocks were sent, and how many values have room.
    constexpr std::size_t named_values(std::uint32_t column, std::size_t sent) const {
        return elements + column * elements_stride + sent * block_bytes;
    }
    constexpr std::size_t bytes_of_named(std::size_t count) const {
        constexpr std::size_t kStored = 16;
        const std::size_t codes = count * block_bytes / kBlockIds;
        return sizeof(NamedValues) + (codes + kStored - 1) / kStored * kStored;
    }
    // With best_entries, behind so many bytes of the column: where the list begins, and how many entries have
    // room, if so many bytes at the end of the column's room are taken.
    constexpr std::size_t best_entries(std::uint32_t column, std::size_t before) const {
        return elements + column * elements_stride + before;
    }
    constexpr std::size_t room_for_entries(std::size_t before, std::size_t taken) const {
        const std::size_t other = before + taken + sizeof(BestEntries);
        // A device stores two at a time.
        return other < elements_stride ? (elements_stride - other) / (2 * sizeof(BestEntry)) * 2 : 0;
    }

    // With weighed_blocks, of a rank of so many blocks.
    constexpr std::size_t block_weights(std::uint32_t column, std::size_t of_rank) const {
        return elements + (column + 1) * elements_stride - block_weights_bytes(of_rank);
    }
    // With row_spread: in the room of its last block.
    constexpr std::size_t spread(std::uint32_t column) const {
        return elements + (column + 1) * elements_stride - sizeof(LeanSpread);
    }
    // With race_best, of a rank of so many blocks.
    constexpr std::size_t racers(std::uint32_t column, SentFlags flags, std::size_t of_rank) const {
        return elements + (column + 1) * elements_stride - racers_before_end(flags, of_rank);
    }
};
LeanLayout lean_layout_of(const Geometry& geometry, std::uint32_t rank);

}  // namespace croupier::proto

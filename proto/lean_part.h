// What a rank sends of a step's rows where it keeps the rows themselves: the largest entry of every block,
// some blocks whole, and sums (docs/decisions/0020-a-lean-transport.md). Blocks are counted from the rank's
// first one, in the order of their ids.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "proto/geometry.h"
#include "proto/race.h"

namespace croupier::proto {

// Of a column: the session's `lean_blocks` is a multiple, and so large at most.
constexpr std::uint32_t kLeanGranule = 32;
constexpr std::uint32_t kMostLeanBlocks = 1024;
// Where nothing else is asked for: a column that needs more is seldom, or has no bound.
constexpr std::uint32_t kUsualLeanBlocks = 96;

// The column stands in the slice as well, whole, as in a step of rows.
constexpr std::uint32_t kStandsWhole = 1U << 0U;
// The head has the winner among the rank's ids; no block was sent. Never of a row with NaN or +inf.
constexpr std::uint32_t kDrawn = 1U << 1U;

struct alignas(64) LeanHead {
    std::uint32_t flags;
    std::uint32_t sent;  // blocks
    // What the rank's entries above -inf weigh together, in units of the largest one's weight: each exp(x),
    // and each exp(x * scale). 0: it was not summed.
    double weight;
    double weight_at_scale;
    double scale;
    race::Draw draw;  // with kDrawn
};
static_assert(sizeof(LeanHead) == 64 && offsetof(LeanHead, draw) == 32);

// Within the head of a column that is not drawn: the ready word that the step will have, stored when all of
// the column is there, which may be decided while others are on their way. A drawn column's head has the end
// of its draw there, which is no word of any writer: the half that has the epoch is 0.
constexpr std::size_t kLeanStamp = offsetof(LeanHead, draw) + offsetof(race::Draw, score);
static_assert(kLeanStamp % sizeof(std::uint64_t) == 0 &&
              offsetof(race::Draw, reserved) == offsetof(race::Draw, score) + sizeof(std::uint32_t));

// Where the parts lie in a rank's bytes of a slot. Each is by column of the largest batch.
struct LeanLayout {
    std::size_t heads = 0;
    std::size_t maxima = 0;         // codes of the session's dtype, one a block; NaN where the block has one
    std::size_t maxima_stride = 0;  // bytes from column to column
    std::size_t blocks = 0;         // std::uint16_t each: which were sent
    std::size_t blocks_stride = 0;
    std::size_t elements = 0;  // kBlockIds codes each
    std::size_t elements_stride = 0;
    std::size_t bytes = 0;
};
LeanLayout lean_layout_of(const Geometry& geometry, std::uint32_t rank);

inline std::atomic<std::uint64_t>& lean_stamp(std::byte* part, const LeanLayout& layout,
                                              std::uint32_t column) {
    std::byte* const head = part + layout.heads + column * sizeof(LeanHead);
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(head + kLeanStamp);
}

}  // namespace croupier::proto

// What a lean step sends of a column: written by the host for each step, an argument of the kernel.
#pragma once

#include <cstdint>
#include <limits>

#include "proto/flags.h"
#include "proto/race.h"

namespace croupier::request {

// A search for the best tokens that may give up does so when it has more candidates.
constexpr std::uint32_t kMostSearched = 512;

enum class Want : std::uint32_t {
    sum_at_one = 1U << 0U,
    sum_at_scale = 1U << 1U,
    // The column stands in the slice, whole; no block of it is sent beside.
    whole = 1U << 2U,
    // The column is drawn where its row is, if that can be told; else its blocks are sent as without this.
    draw = 1U << 3U,
    // With sum_at_scale: what each block weighs, if that leaves room for blocks.
    block_weights = 1U << 4U,
    // At a temperature above 0: the best tokens of its race are sent in place of blocks by the race, which
    // are opened where the row is.
    racers = 1U << 5U,
    // The row's spread; then no block is weighed.
    spread = 1U << 6U,
    // The best entries are listed, `by_maximum` of them or some more. No block is sent for its maximum.
    best_entries = 1U << 7U,
};
using Wants = proto::Flags<Want>;
constexpr Wants operator|(Want a, Want b) {
    return Wants(a) | Wants(b);
}

struct LeanWant {
    proto::race::Key key;
    double scale = 1.0;        // above 0
    float temperature = 0.0F;  // 0: greedy, nothing races
    Wants flags;
    // Blocks with the largest maxima, or entries: sent, or opened. Of these, none that is further than
    // `reach` below the largest.
    std::uint16_t by_maximum = 0;
    // Where the column stands in the slice.
    std::uint16_t place = 0;
    float reach = std::numeric_limits<float>::infinity();
    // Blocks with the best bounds of the race, likewise.
    std::uint16_t by_race = 0;
    // Not 0: one more than the number of the step's mask that says which entries count.
    std::uint16_t mask_row = 0;
    // How many ids the request names, whose values are sent, and the cache line at which their list begins
    // among the step's.
    std::uint16_t named = 0;
    std::uint16_t names_line = 0;
};
// Replays copy sixteen bytes at a time, and a launch has room for hundreds among its arguments.
static_assert(sizeof(LeanWant) == 48);

// In how many blocks' room the values of so many ids stand at most.
constexpr std::uint32_t blocks_for_named(std::uint32_t named) {
    constexpr std::uint32_t kOfBlock = 64;
    return named == 0 ? 0 : 1 + (named + kOfBlock - 1) / kOfBlock;
}

}  // namespace croupier::request

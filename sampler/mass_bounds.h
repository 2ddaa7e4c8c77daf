// Bounds of what tokens and blocks weigh, for proposals.
#pragma once

#include <cstdint>
#include <span>

#include "sampler/blocked_row.h"
#include "sampler/mass.h"
#include "sampler/proposals.h"

namespace croupier::sampler {

// Bounds are summed in groups of so many.
constexpr std::uint32_t kBoundGroup = 64;

// The bound of each value, none above the reference by more than its rounding, and the groups' sums; returns
// the total.
Mass bound_each(std::span<const float> values, const MassBound& bound, std::span<Mass> masses,
                std::span<Mass> sums) noexcept;

// The sum of the bounds of a block's tokens.
Mass bound_block(const BlockedRow& row, std::uint32_t block, const MassBound& bound) noexcept;

}  // namespace croupier::sampler

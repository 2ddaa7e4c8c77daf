// The weight of a whole row, summed in float at the speed of the vector unit, with a bound on its error.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "sampler/blocked_row.h"
#include "sampler/vocabulary_order.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

// What total_weight() may be off, as a share of it. The argument's three roundings make 1.3e-7 |t| for a
// weight of 2^-t, the polynomial 3e-7, the sums 4e-7; weights below 2^-20 of the best, whose argument is off
// most, are a share of a sum that the best alone makes >= 1 only where there are many: 2^-20 * 2^20 * 2.6e-6.
constexpr double kWeightError = 4e-6;

// Whether a raw log-prob with a total of that error, rounded to float, may stand for another's.
inline bool logprobs_agree(float a, float b) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    if (a == b) return true;
    return std::abs(a - b) <= static_cast<float>(kWeightError) + std::abs(b) * 0x1p-22F;
}

// Blocks are summed in groups of up to so many of a run: in float, more would add to the error, fewer to the
// cost.
constexpr std::uint32_t kGroup = 8;

// What is summed: the row's tokens that the mask allows, each exp((x - maximum) * scale).
struct MassQuery {
    const BlockedRow& row;
    std::span<const std::uint32_t> mask;
    const VocabularyOrder& order;
    double maximum;
    double scale;
};

// In float, the same on every instruction set. Fills the workspace's group weights.
double total_weight(const MassQuery& query, Workspace& workspace) noexcept;

// Exactly, in the whole numbers of sampler/mass.h; several times slower. Fills the workspace's group masses.
Mass total_mass(const MassQuery& query, Workspace& workspace) noexcept;

}  // namespace croupier::sampler

// The weight of a whole row, summed in float at the speed of the vector unit, with a bound on its error.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>

#include "sampler/blocked_row.h"
#include "sampler/row_scan.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

// What total_weight() may be off, as a share of it. The argument t, of a weight 2^t, is rounded once and its
// slope once: 9e-8 |t| of the weight. The mean of |t|, weighed, is at most the entropy's 20 bits: 1.3e-6. The
// polynomial adds 2.6e-6, its evaluation 3e-7, additions in float 7e-7 here and up to 4e-6 in row_sums.h on
// registers of four lanes; without fused products a reference of up to 16 nats away 1e-6.
constexpr double kWeightError = 1e-5;

// What a writer may be off that sums in float, as a GPU's kernel does: a weight's argument is rounded three
// times, 1.24e-7 |t| of the weight, which is 2.5e-6 by the same mean; its power three times, of a block, a
// chunk and the row, 7e-7 together; and 28 additions and products one after the other, 1.7e-6.
constexpr double kSentWeightError = 5e-6;

// Whether a raw log-prob computed from a total with that error may stand for another, both rounded to float.
inline bool logprobs_agree(float a, float b) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    if (a == b) return true;
    return std::abs(a - b) <= static_cast<float>(kWeightError) + std::abs(b) * 0x1p-22F;
}

// Blocks are summed in groups of so many, counted from the row's first, wherever they lie: a sum does not
// depend on who holds what. In float, more would add to the error, fewer to the cost.
constexpr std::uint32_t kGroup = 8;

// What is summed: the row's tokens that the mask allows, each exp((x - maximum) * scale).
struct MassQuery {
    const BlockedRow& row;
    std::span<const std::uint32_t> mask;
    double maximum;
    double scale;
};

// What one pass found.
struct ScannedWeight {
    double maximum;
    double total;  // in units of the maximum's weight; 0: it was not found
    std::uint32_t largest_code;
};

// Whether float reaches.
bool can_be_weighed(double maximum, double scale) noexcept;

// What the query asks for, if it is one of `known`.
std::optional<double> known_weight(const MassQuery& query, std::span<const Weighed> known) noexcept;

// In float, the same on every instruction set that fuses, unless it is known already; exactly where
// float does not reach.
double total_weight(const MassQuery& query, std::span<const Weighed> known) noexcept;

// The scan of sampler/row_scan.h for a bf16 row without a mask, and its total weight on the way, which the
// workspace then knows. (Not always: where a sample of the row does not tell about how large its maximum is.)
RowFault scan_and_weigh(const BlockedRow& row, double scale, Workspace& workspace) noexcept;

}  // namespace croupier::sampler

// Sums over a row that answer a question about one of its tokens, in float at the speed of the vector unit,
// each with a bound on its error: what they leave open is counted exactly.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "sampler/blocked_row.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

// A row whose blocks' maxima are known, as far as the mask allows it, weighed as exp((x - reference) *
// scale). No value is above the reference. Where it can be weighed (sampler/row_mass.h), sums of weights are
// off by kWeightError of themselves at most.
struct WeighedRow {
    const BlockedRow& row;
    std::span<const float> block_max;
    std::span<const std::uint32_t> mask;
    double reference;
    double scale;
};

// What the tokens weigh that stand before `place` in canonical order and whose value is below `below`.
double weight_before(const WeighedRow& of, const Candidate& place,
                     float below = std::numeric_limits<float>::infinity()) noexcept;

// The same of all values, and beside it what the row weighs at least: the blocks that were read, and of each
// other one its largest.
struct WeightBefore {
    double before = 0.0;
    double least_total = 0.0;
};
WeightBefore weight_before_and_least(const WeighedRow& of, const Candidate& place) noexcept;

// Of a row that is there in part, without asking for anything: what stands before the place, where all of it
// is there.
std::optional<double> weigh_before(const WeighedRow& of, const Candidate& place) noexcept;

// Where it has told: the same in double, off by what its additions round.
double weigh_before_exactly(const WeighedRow& of, const Candidate& place) noexcept;

// Of any row, what is there and has no bit in `taken`, in blocks whose largest entry reaches the floor: the
// largest, or `highest` if that is above it, what all of them weigh in units of its weight, and what of that
// stands before the place. Where the largest cannot be weighed, or there is none, it is -inf and nothing is
// told.
struct LeftWeights {
    double highest = -std::numeric_limits<double>::infinity();
    double before = 0.0;
    double all = 0.0;
    double rest = 0.0;  // of all other blocks, at most
};
LeftWeights weigh_left(const WeighedRow& of, const Candidate& place, std::span<const std::uint64_t> taken,
                       double highest, float floor) noexcept;

// Of such a row what stands before the place and what behind it, as far as it is there, and of each other
// block its largest.
struct KnownWeights {
    double before = 0.0;
    double behind = 0.0;
};
KnownWeights weigh_known(const WeighedRow& of, const Candidate& place) noexcept;

// Asks for each block that may hold what stands before the place and is not there.
void ask_for_before(const WeighedRow& of, const Candidate& place) noexcept;

// What some values weigh, which may be up to kFarthestAbove nats above the reference.
constexpr double kFarthestAbove = 60.0;
void weigh_each(double reference, double scale, std::span<const float> values,
                std::span<float> weights) noexcept;

// Of the tokens above -inf: how many, what they weigh, and the sum of their weights, each times its exponent.
// Of a row that is there in part, as its writers say, if they do: all of its blocks tell the same.
struct Spread {
    double tokens = 0.0;
    double weight = 0.0;
    double exponents = 0.0;
};
Spread spread_of(const WeighedRow& of) noexcept;

// Of the tokens above -inf: how many, and the sums of their distances from the reference, and of these
// squared. They are off by kMomentError of themselves at most: each of a group's float sums has up to 32
// terms.
struct Moments {
    double tokens = 0.0;
    double distances = 0.0;
    double squares = 0.0;
};
constexpr double kMomentError = 1e-5;
Moments moments_of(const WeighedRow& of) noexcept;

}  // namespace croupier::sampler

// What the classes of a row weigh, exactly, and sums over the tokens of a range of values.
#pragma once

#include <cstdint>
#include <span>

#include "sampler/blocked_row.h"
#include "sampler/formulas.h"
#include "sampler/mass.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

std::uint32_t count_tokens(std::span<const EqualClass> classes) noexcept;

// Each class's weight, and the mass of those that are not mixed.
void weigh_values(std::span<EqualClass> classes, const Weigher& weigher) noexcept;

// A 32-bit row whose blocks' maxima are known, as far as the mask allows it, from `least` to `most`.
struct RowRange {
    const BlockedRow& row;
    std::span<const std::uint32_t> mask;
    std::span<const float> block_max;
    float least;
    float most;
};

// The mass of all its tokens together.
Mass mass_of_range(const RowRange& range, const Weigher& weigher) noexcept;

// Puts the candidates' logits by adaptive-p in place of their own.
void replace_logits(std::span<Candidate> candidates, const AdaptiveLogit& logit) noexcept;

// The mass where each token has its logit by adaptive-p in place of its own, against this largest one.
Mass replaced_mass_of_range(const RowRange& range, const AdaptiveLogit& logit, double largest) noexcept;
// Of classes that are not mixed, which are weighed as `logit` weighs them.
Mass replaced_mass_of_values(std::span<const EqualClass> classes, const AdaptiveLogit& logit,
                             double largest) noexcept;

// Adds the mass of each token to that of its code's upper 16 bits. What is outside of the range may be left
// out, or be weighed as anything.
void add_code_masses(const RowRange& range, const Weigher& weigher, std::span<Mass> masses) noexcept;

EntropySums entropy_sums_of_range(const RowRange& range, const Weigher& weigher) noexcept;

// In double, in no particular order: how many tokens there are, and the sums of their distances from
// `reference`, and of these squared.
struct DistanceSums {
    double tokens = 0.0;
    double distances = 0.0;
    double squares = 0.0;

    void add(double distance, double count) {
        tokens += count;
        distances += count * distance;
        squares += count * (distance * distance);
    }
};
DistanceSums sum_of_distances(const RowRange& range, double reference) noexcept;

}  // namespace croupier::sampler

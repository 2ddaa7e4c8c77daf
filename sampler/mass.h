// Probability mass as whole numbers: a sum of them is the same in every order, on every vector width and
// however the row is cut up. That is what lets a fast path add as it likes (docs/decisions/0002).
#pragma once

#include <bit>
#include <cstdint>

#include "sampler/exp.h"

namespace croupier::sampler {

using Mass = std::uint64_t;
__extension__ using Wide = unsigned __int128;

// The heaviest token weighs 2^43; a vocabulary of 2^20 such tokens still fits. What weighs less than 2^-44 of
// the heaviest weighs nothing: the finest step of a draw is 2^-32.
constexpr double kMassUnit = 0x1p43;
// Adding it rounds to the nearest whole number and leaves that number in the low bits of the sum.
constexpr double kMassRounder = 0x1p52;
constexpr std::uint64_t kMassRounderBits = 0x4330000000000000U;

constexpr Mass mass_of_weight(double weight) {
    return std::bit_cast<std::uint64_t>(weight * kMassUnit + kMassRounder) - kMassRounderBits;
}

// What a logit weighs in a distribution.
struct Weigher {
    double maximum;
    double scale;  // 1 / temperature, rounded once: a vector unit multiplies far faster than it divides

    double exponent(double value) const { return (value - maximum) * scale; }
    double weight(double value) const { return exp_nonpositive(exponent(value)); }
    Mass mass(double value) const { return mass_of_weight(weight(value)); }
};

// What an entropy is computed from: the mass of some tokens, and the sum of their masses each times its
// exponent's distance from 0, a whole number as the mass is.
struct EntropySums {
    Mass total = 0;
    Mass products = 0;

    static constexpr Mass product(Mass mass, double exponent) {
        const double rounded = static_cast<double>(mass) * -exponent + kMassRounder;
        return std::bit_cast<std::uint64_t>(rounded) - kMassRounderBits;
    }
    // `count` may be a negative number, for tokens that are no longer there.
    void add(const Weigher& weigher, double value, std::int64_t count) {
        const double exponent = weigher.exponent(value);
        const Mass mass = mass_of_weight(exp_nonpositive(exponent));
        total += mass * static_cast<Mass>(count);
        products += product(mass, exponent) * static_cast<Mass>(count);
    }
};

// The draw's target in a distribution of this mass, floor(u * total) with u = (random + 1/2) / 2^32, exactly:
// the drawn token is the first at whose end the running mass is above it. There is one, because u < 1.
constexpr Mass draw_target(std::uint32_t random, Mass total) {
    const auto doubled = std::uint64_t{random} * 2 + 1;
    return static_cast<Mass>((static_cast<Wide>(total) * doubled) >> 33U);
}

}  // namespace croupier::sampler

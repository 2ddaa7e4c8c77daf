// Maxima and masses of a row by blocks of 64 positions, in the fixed order of docs/decisions/0002.
#pragma once

#include <cstdint>
#include <span>

#include "sampler/exp.h"

namespace croupier::sampler {

// Fills the maximum of each block of `values` and returns the largest.
double find_block_maxima(std::span<const double> values, std::span<double> block_max);

// The row in double precision, with the maximum of each block; returns the largest.
double widen_blocks(std::span<const float> row, std::span<double> values, std::span<double> block_max);

// What a logit weighs in a distribution.
struct Weigher {
    double maximum;
    double scale;  // 1 / temperature, rounded once: a vector unit multiplies far faster than it divides

    double exponent(double value) const { return (value - maximum) * scale; }
    double operator()(double value) const { return exp_nonpositive(exponent(value)); }
};

// Fills the mass of each block of `values` and returns their sum.
double sum_block_masses(std::span<const double> values, const Weigher& weigh, std::span<double> block_mass);

// The position at which the running mass passes `target`, which must be below the blocks' sum.
std::uint32_t find_mass(std::span<const double> values, const Weigher& weigh,
                        std::span<const double> block_mass, double target);

}  // namespace croupier::sampler

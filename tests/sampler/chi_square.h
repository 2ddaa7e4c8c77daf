// How far a true distribution strays.
#pragma once

#include <cmath>

namespace croupier::sampler::test {

// Wilson and Hilferty's approximation of the quantile that a true distribution exceeds once in a million.
inline double chi_square_limit(double freedom) {
    constexpr double kNormalQuantile = 4.7534;
    const double spread = 2.0 / (9.0 * freedom);
    return freedom * std::pow(1.0 - spread + kNormalQuantile * std::sqrt(spread), 3.0);
}

}  // namespace croupier::sampler::test

// The floats on either side of a double: a row of floats is searched by them for a value that is not a float.
#pragma once

#include <cmath>
#include <limits>

namespace croupier::sampler {

// The largest float that is not above it.
inline float float_below(double value) {
    const auto near = static_cast<float>(value);
    return static_cast<double>(near) <= value ? near
                                              : std::nextafter(near, -std::numeric_limits<float>::infinity());
}

// The smallest float that is not below it.
inline float float_above(double value) {
    const auto near = static_cast<float>(value);
    return static_cast<double>(near) >= value ? near
                                              : std::nextafter(near, std::numeric_limits<float>::infinity());
}

}  // namespace croupier::sampler

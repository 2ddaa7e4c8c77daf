// The one natural logarithm of every decision: the same bits from every compiler and machine, as
// sampler/exp.h.
#pragma once

#include <bit>
#include <cstdint>

#include "sampler/exp.h"

namespace croupier::sampler {

// Shared with a vector form, which repeats log_positive operation for operation.
namespace log_constants {
// The bits of sqrt(1/2): mantissas are taken from there to sqrt(2), so that the logarithm of 1 + f has no
// cancellation against the exponent's.
constexpr std::uint64_t kSqrtHalfBits = 0x3FE6A09E667F3BCDU;
constexpr std::uint64_t kOneBits = 0x3FF0000000000000U;
constexpr std::uint64_t kMantissaBits = 0x000FFFFFFFFFFFFFU;
// Through Chebyshev nodes of (ln((1 + s) / (1 - s)) - 2 s) / s^3 in z = s^2; its own error is 5e-18.
constexpr double kP[7] = {0x1.5555555555558p-1, 0x1.99999999952e2p-2, 0x1.2492492df1492p-2,
                          0x1.c71c62e57fa3fp-3, 0x1.7462b4ab4c062p-3, 0x1.39fe60617ce73p-3,
                          0x1.2b584add1c619p-3};
}  // namespace log_constants

// ln(x) for normal, finite x > 0; at most 2 ulp off. x = 2^k (1 + f), s = f / (2 + f), and
// ln(1 + f) = f - s (f - z p(z)). Every operation is a single rounded IEEE one.
inline double log_positive(double x) {
    using namespace log_constants;
    const std::uint64_t shifted = std::bit_cast<std::uint64_t>(x) + (kOneBits - kSqrtHalfBits);
    const auto k = static_cast<double>(static_cast<std::int64_t>(shifted >> 52U) - 1023);
    const double f = std::bit_cast<double>((shifted & kMantissaBits) + kSqrtHalfBits) - 1.0;

    const double s = f / (2.0 + f);
    const double z = s * s;
    const double z2 = z * z;
    const double low = (kP[0] + kP[1] * z) + (kP[2] + kP[3] * z) * z2;
    const double high = (kP[4] + kP[5] * z) + kP[6] * z2;
    const double p = low + high * (z2 * z2);
    const double correction = s * (f - z * p) - k * exp_constants::kLn2Low;
    return k * exp_constants::kLn2High + (f - correction);
}

}  // namespace croupier::sampler

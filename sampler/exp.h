// The one exponential of every decision: the same bits from every compiler and machine, which libm's is not.
#pragma once

#include <bit>
#include <cstdint>

namespace croupier::sampler {

// From this argument on, results are 0 (they are subnormal for the last half before it): exp(-708) = 3e-308
// is 298 orders of magnitude below 2^-32, the finest step of a draw.
constexpr double kExpUnderflow = -709.0;

// Shared with the vector form (exp-inl.h), which repeats exp_nonpositive operation for operation.
namespace exp_constants {
constexpr double kLog2E = 0x1.71547652b82fep+0;
// 42 bits of ln 2, so that its product with n, of at most 11 bits, is exact.
constexpr double kLn2High = 0x1.62e42fefa3800p-1;
constexpr double kLn2Low = 0x1.ef35793c76730p-45;
// Adding it rounds to the nearest integer and leaves that integer in the low bits of the sum.
constexpr double kRounder = 0x1.8p+52;
constexpr double kQ[10] = {0x1.0000000000001p-1,  0x1.5555555555556p-3,  0x1.5555555553d63p-5,
                           0x1.11111111109b3p-7,  0x1.6c16c1788bd90p-10, 0x1.a01a01a7c41d5p-13,
                           0x1.a019b90d2ae7ap-16, 0x1.71de0dae63bb3p-19, 0x1.289185613a3d6p-22,
                           0x1.af38a9b0ec855p-26};
}  // namespace exp_constants

// exp(x) for x <= 0, -inf included; at most 2 ulp off down to -708. Cody-Waite reduction to |r| <= ln2 / 2,
// then 1 + r + r^2 q(r) with q of degree 9 through Chebyshev nodes (its own error is 2e-17). Every operation
// is a single rounded IEEE one (-ffp-contract=off): a vector unit repeats it exactly.
inline double exp_nonpositive(double x) {
    using namespace exp_constants;
    const double clamped = x > kExpUnderflow ? x : kExpUnderflow;
    const double shifted = clamped * kLog2E + kRounder;
    const double n = shifted - kRounder;
    const double r = (clamped - n * kLn2High) - n * kLn2Low;

    // Pairs, not Horner's chain: half the latency, which is what bounds a loop over it.
    const double r2 = r * r;
    const double r4 = r2 * r2;
    const double q01 = kQ[0] + kQ[1] * r;
    const double q23 = kQ[2] + kQ[3] * r;
    const double q45 = kQ[4] + kQ[5] * r;
    const double q67 = kQ[6] + kQ[7] * r;
    const double q89 = kQ[8] + kQ[9] * r;
    const double q = (q01 + q23 * r2) + ((q45 + q67 * r2) + q89 * r4) * r4;
    const double power = q * r2 + r + 1.0;

    // n = -1023, that of kExpUnderflow, makes a scale of +0.
    const auto scale = std::bit_cast<double>((std::bit_cast<std::uint64_t>(shifted) + 1023U) << 52U);
    return power * scale;
}

}  // namespace croupier::sampler

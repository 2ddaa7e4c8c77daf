// The one exponential of every decision: the same bits from every compiler and machine, which libm's is not.
#pragma once

#include <bit>
#include <cstdint>

namespace croupier::sampler {

// Below this argument the result is 0: exp(-708) = 3e-308 is the last that needs no subnormal arithmetic,
// and 2^-32, the finest step of a draw, is 286 orders of magnitude above it.
constexpr double kExpUnderflow = -708.0;

// exp(x) for x <= 0, -inf included; at most 1 ulp off above kExpUnderflow. Cody-Waite reduction to
// |r| <= ln2 / 2, then 1 + r + r^2 q(r) with q of degree 9 through Chebyshev nodes (its own error is 2e-17).
// Every operation is a single rounded IEEE one (-ffp-contract=off): a vector unit repeats it exactly.
// No branch: a loop over it vectorises.
inline double exp_nonpositive(double x) {
    constexpr double kLog2E = 0x1.71547652b82fep+0;
    // 42 bits of ln 2, so that its product with n, of at most 11 bits, is exact.
    constexpr double kLn2High = 0x1.62e42fefa3800p-1;
    constexpr double kLn2Low = 0x1.ef35793c76730p-45;
    // Adding it rounds to the nearest integer and leaves that integer in the low bits of the sum.
    constexpr double kRounder = 0x1.8p+52;

    const double clamped = x > kExpUnderflow ? x : kExpUnderflow;
    const double shifted = clamped * kLog2E + kRounder;
    const double n = shifted - kRounder;
    const double r = (clamped - n * kLn2High) - n * kLn2Low;

    double q = 0x1.af38a9b0ec855p-26;
    q = q * r + 0x1.289185613a3d6p-22;
    q = q * r + 0x1.71de0dae63bb3p-19;
    q = q * r + 0x1.a019b90d2ae7ap-16;
    q = q * r + 0x1.a01a01a7c41d5p-13;
    q = q * r + 0x1.6c16c1788bd90p-10;
    q = q * r + 0x1.11111111109b3p-7;
    q = q * r + 0x1.5555555553d63p-5;
    q = q * r + 0x1.5555555555556p-3;
    q = q * r + 0x1.0000000000001p-1;
    const double power = (q * r) * r + r + 1.0;

    const auto scale = std::bit_cast<double>((std::bit_cast<std::uint64_t>(shifted) + 1023U) << 52U);
    const double result = power * scale;
    return x >= kExpUnderflow ? result : 0.0;
}

}  // namespace croupier::sampler

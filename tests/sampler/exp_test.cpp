#include "sampler/exp.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

namespace croupier::sampler {
namespace {

double ulps_off(double x) {
    const long double exact = std::exp(static_cast<long double>(x));
    const auto nearest = static_cast<double>(exact);
    const double ulp = nearest - std::nextafter(nearest, 0.0);
    return static_cast<double>(std::abs(static_cast<long double>(exp_nonpositive(x)) - exact)) / ulp;
}

}  // namespace

TEST_CASE("exp is at most 2 ulp off over millions of points of its range") {
    std::mt19937_64 generator(7);
    std::uniform_real_distribution<double> whole(-708.0, 0.0);
    std::uniform_real_distribution<double> usual(-30.0, 0.0);
    std::uniform_real_distribution<double> exponent(-60.0, 0.0);
    double worst = 0.0;
    for (int i = 0; i < 1000000; ++i) {
        worst = std::max(worst, ulps_off(whole(generator)));
        worst = std::max(worst, ulps_off(usual(generator)));
        worst = std::max(worst, ulps_off(-std::exp2(exponent(generator))));
    }
    INFO("worst " << worst << " ulp");
    CHECK(worst <= 2.0);
}

TEST_CASE("exp of zero is one, and what underflows is zero") {
    CHECK(exp_nonpositive(0.0) == 1.0);
    CHECK(exp_nonpositive(-0.0) == 1.0);
    CHECK(exp_nonpositive(-708.0) > 0.0);
    CHECK(exp_nonpositive(kExpUnderflow) == 0.0);
    CHECK(exp_nonpositive(-1e300) == 0.0);
    CHECK(exp_nonpositive(-std::numeric_limits<double>::infinity()) == 0.0);
}

TEST_CASE("exp gives the same bits on every machine and from every compiler") {
    std::mt19937_64 generator(11);
    std::uint64_t hash = 14695981039346656037ULL;
    for (int i = 0; i < 100000; ++i) {
        const double x = -static_cast<double>(generator() >> 11U) * 0x1p-53 * 720.0;
        hash = (hash ^ std::bit_cast<std::uint64_t>(exp_nonpositive(x))) * 1099511628211ULL;
    }
    CHECK(hash == 0x067D2416D2A76CB8ULL);
}

}  // namespace croupier::sampler

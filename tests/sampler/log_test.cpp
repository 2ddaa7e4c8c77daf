#include "sampler/log.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

namespace croupier::sampler {
namespace {

double ulps_off(double x) {
    const long double exact = std::log(static_cast<long double>(x));
    const auto nearest = static_cast<double>(exact);
    const double ulp = std::nextafter(std::abs(nearest), HUGE_VAL) - std::abs(nearest);
    return static_cast<double>(std::abs(static_cast<long double>(log_positive(x)) - exact)) / ulp;
}

}  // namespace

TEST_CASE("log is at most 2 ulp off over millions of points of its range") {
    std::mt19937_64 generator(7);
    std::uniform_real_distribution<double> unit(0.0, 1.0);
    std::uniform_real_distribution<double> near_one(0.7, 1.42);
    std::uniform_real_distribution<double> exponent(-1020.0, 1020.0);
    double worst = 0.0;
    for (int i = 0; i < 1000000; ++i) {
        worst = std::max(worst, ulps_off(unit(generator)));
        worst = std::max(worst, ulps_off(near_one(generator)));
        worst = std::max(worst, ulps_off(std::exp2(exponent(generator))));
        worst = std::max(worst, ulps_off(1.0 - std::exp2(-unit(generator) * 52.0)));
    }
    INFO("worst " << worst << " ulp");
    CHECK(worst <= 2.0);
}

TEST_CASE("log of one is zero, and of the limits finite") {
    CHECK(log_positive(1.0) == 0.0);
    CHECK(log_positive(std::numeric_limits<double>::max()) == Approx(709.782712893384));
    CHECK(log_positive(std::numeric_limits<double>::min()) == Approx(-708.3964185322641));
}

TEST_CASE("log gives the same bits on every machine and from every compiler") {
    std::mt19937_64 generator(11);
    std::uint64_t hash = 14695981039346656037ULL;
    for (int i = 0; i < 100000; ++i) {
        const double x = static_cast<double>((generator() >> 11U) + 1) * 0x1p-53;
        hash = (hash ^ std::bit_cast<std::uint64_t>(log_positive(x))) * 1099511628211ULL;
    }
    CHECK(hash == 0xDCCAED3263BAE13AULL);
}

}  // namespace croupier::sampler

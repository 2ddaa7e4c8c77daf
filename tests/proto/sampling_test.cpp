#include "proto/sampling.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "proto/param_ranges.h"

using namespace croupier::proto;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The nearest values that are not allowed, of those that the type has.
std::vector<double> outside(const SamplingField<double>& field) {
    const Interval& allowed = field.allowed;
    return {allowed.has_low ? std::nextafter(allowed.low, -kInfinity) : allowed.low,
            allowed.has_high ? std::nextafter(allowed.high, kInfinity) : allowed.high, kNan, kInfinity,
            -kInfinity};
}
template <typename T>
std::vector<T> outside(const SamplingField<T>& field) {
    std::vector<T> values;
    if (field.allowed.low > 0 || std::is_signed_v<T>) values.push_back(static_cast<T>(field.allowed.low - 1));
    constexpr double kMost =
        std::is_enum_v<T> ? kInfinity : static_cast<double>(std::numeric_limits<T>::max());
    if (field.allowed.high < kMost) values.push_back(static_cast<T>(field.allowed.high + 1));
    return values;
}

}  // namespace

TEST_CASE("an interval has what lies between its ends, and those that are its own") {
    CHECK((fields::from_to(0, 1).has(0) && fields::from_to(0, 1).has(1) && !fields::from_to(0, 1).has(1.1)));
    CHECK((!fields::above_to(0, 1).has(0) && fields::above_to(0, 1).has(1e-300)));
    CHECK((fields::at_least(1).has(1) && fields::at_least(1).has(kInfinity) && !fields::at_least(1).has(0)));
    CHECK((fields::below(0).has(-kInfinity) && !fields::below(0).has(0) && fields::at_most(0).has(0)));
    CHECK((!fields::above(0.5).has(0.5) && fields::above(0.5).has(0.6)));
    CHECK((fields::only(1).has(1) && !fields::only(1).has(2)));
    for (const double value : {0.0, 1.0, kInfinity, -kInfinity}) CHECK_FALSE(fields::never().has(value));
    CHECK_FALSE(Interval{-kInfinity, kInfinity}.has(kNan));
}

TEST_CASE("the defaults of the parameters are in their ranges") {
    CHECK_FALSE(param_fault({}));
}

TEST_CASE("the default order has every step once, and an order has room for all of them and its end") {
    for (std::size_t i = 0; i < kStepNames.size(); ++i) {
        INFO(kStepNames[i]);
        CHECK(std::count(kDefaultOrder.begin(), kDefaultOrder.end(), static_cast<Step>(i + 1)) == 1);
    }
    CHECK(kDefaultOrder.back() == Step::end);
}

TEST_CASE("each parameter is refused next to its range, by its name and with its range") {
    for_each_sampling_field([](const auto& field) {
        for (const auto value : outside(field)) {
            INFO(field.name);
            SamplingParams params;
            params.*field.member = value;
            const auto fault = param_fault(params);
            REQUIRE(fault);
            CHECK(fault->field == std::string(field.name));
            CHECK(fault->range == std::string(field.range));
        }
    });
}

TEST_CASE("each parameter's range in words names the ends of the range") {
    for_each_sampling_field([](const auto& field) {
        // The words are those of two bits, and of another parameter.
        if (field.name == fields::flags.name || field.name == fields::min_tokens.name) return;
        for (const double end : {field.allowed.low, field.allowed.high}) {
            if (std::isinf(end)) continue;
            std::ostringstream number;
            number << end;
            CHECK_THAT(field.range, Catch::Contains(number.str()));
        }
    });
}

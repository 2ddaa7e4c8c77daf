#include "sim/latency_histogram.h"

#include <catch2/catch.hpp>
#include <memory>

namespace croupier::sim {

TEST_CASE("an empty histogram has no latency") {
    const auto histogram = std::make_unique<LatencyHistogram>();
    CHECK(histogram->count() == 0);
    CHECK(histogram->percentile_ns(0.99) == 0);
}

TEST_CASE("percentiles are at most 1.6 % too high at every scale") {
    for (std::uint64_t unit = 1; unit < 1'000'000'000'000ULL; unit *= 7) {
        const auto histogram = std::make_unique<LatencyHistogram>();
        for (std::uint64_t i = 1; i <= 1000; ++i) histogram->add(i * unit);
        for (const std::uint64_t rank : {1U, 10U, 500U, 990U, 999U}) {
            const std::uint64_t found = histogram->percentile_ns(static_cast<double>(rank) / 1000.0);
            CHECK(found >= rank * unit);
            CHECK(static_cast<double>(found) <= static_cast<double>(rank * unit) * (1.0 + 1.0 / 64.0) + 1.0);
        }
        CHECK(histogram->max_ns() == 1000 * unit);
        CHECK(histogram->percentile_ns(1.0) == 1000 * unit);
    }
}

TEST_CASE("the largest possible latency has a bucket") {
    const auto histogram = std::make_unique<LatencyHistogram>();
    histogram->add(UINT64_MAX);
    CHECK(histogram->percentile_ns(0.5) == UINT64_MAX);
}

}  // namespace croupier::sim

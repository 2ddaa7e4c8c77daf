// Statistics of measured times: percentiles, and a mean that outliers do not affect.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace croupier::measurement {

struct Percentiles {
    double p50 = 0;
    double p99 = 0;
    double p999 = 0;
    double max = 0;
};

// Converts nanoseconds to percentiles in microseconds.
Percentiles percentiles_us(std::vector<std::uint64_t> nanoseconds);
nlohmann::json to_json(const Percentiles& percentiles);

// The mean of the middle half of the values, which outliers do not affect.
double middle_mean(std::vector<double> values);

}  // namespace croupier::measurement

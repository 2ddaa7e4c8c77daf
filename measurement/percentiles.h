// What a set of measured times comes to: percentiles, and a mean that a disturbance does not move.
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

// In microseconds, of nanoseconds.
Percentiles percentiles_us(std::vector<std::uint64_t> nanoseconds);
nlohmann::json to_json(const Percentiles& percentiles);

// The mean of the middle half: a neighbour on the same core disturbs some rounds, never all alike.
double middle_mean(std::vector<double> values);

}  // namespace croupier::measurement

#include "measurement/percentiles.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <numeric>

namespace croupier::measurement {

Percentiles percentiles_us(std::vector<std::uint64_t> nanoseconds) {
    if (nanoseconds.empty()) return {};
    std::sort(nanoseconds.begin(), nanoseconds.end());
    const auto at = [&](double share) {
        const auto rank =
            static_cast<std::size_t>(std::ceil(share * static_cast<double>(nanoseconds.size())));
        return static_cast<double>(nanoseconds[std::max<std::size_t>(rank, 1) - 1]) * 1e-3;
    };
    return {at(0.50), at(0.99), at(0.999), at(1.0)};
}

double middle_mean(std::vector<double> values) {
    if (values.empty()) return 0.0;
    std::sort(values.begin(), values.end());
    const auto cut = static_cast<std::ptrdiff_t>(values.size() / 4);
    const auto count = static_cast<double>(values.size()) - 2.0 * static_cast<double>(cut);
    return std::accumulate(values.begin() + cut, values.end() - cut, 0.0) / count;
}

nlohmann::json to_json(const Percentiles& percentiles) {
    return {{"p50", percentiles.p50},
            {"p99", percentiles.p99},
            {"p999", percentiles.p999},
            {"max", percentiles.max}};
}

}  // namespace croupier::measurement

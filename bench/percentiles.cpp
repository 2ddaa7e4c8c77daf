#include "bench/percentiles.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace croupier::bench {

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

nlohmann::json to_json(const Percentiles& percentiles) {
    return {{"p50", percentiles.p50},
            {"p99", percentiles.p99},
            {"p999", percentiles.p999},
            {"max", percentiles.max}};
}

}  // namespace croupier::bench

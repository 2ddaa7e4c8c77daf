#include "tools/shvs_bench/sizing.h"

#include <algorithm>
#include <cstddef>

namespace croupier::tools {

double AffineFit::expected_us(const SizedCost& at, std::uint32_t vocab) const {
    const double visited = at.alpha * at.hot + (1.0 - at.alpha) * (vocab - at.hot);
    return c0 + c * visited;
}

AffineFit fit_hot_path(std::span<const SizedCost> grid) {
    const auto n = static_cast<double>(grid.size());
    double mean_hot = 0.0;
    double mean_us = 0.0;
    for (const SizedCost& each : grid) {
        mean_hot += each.hot / n;
        mean_us += each.hot_path_us / n;
    }
    double hot_hot = 0.0;
    double hot_us = 0.0;
    double us_us = 0.0;
    for (const SizedCost& each : grid) {
        const double hot = each.hot - mean_hot;
        const double us = each.hot_path_us - mean_us;
        hot_hot += hot * hot;
        hot_us += hot * us;
        us_us += us * us;
    }
    AffineFit fit;
    fit.c = hot_us / hot_hot;
    fit.c0 = mean_us - fit.c * mean_hot;
    fit.r2 = hot_us * hot_us / (hot_hot * us_us);
    return fit;
}

std::size_t best_expected(const AffineFit& fit, std::span<const SizedCost> grid, std::uint32_t vocab) {
    const auto cheaper = [&](const SizedCost& a, const SizedCost& b) {
        return fit.expected_us(a, vocab) < fit.expected_us(b, vocab);
    };
    return static_cast<std::size_t>(std::min_element(grid.begin(), grid.end(), cheaper) - grid.begin());
}

std::size_t best_measured(std::span<const SizedCost> grid) {
    const auto cheaper = [](const SizedCost& a, const SizedCost& b) { return a.mean_us < b.mean_us; };
    return static_cast<std::size_t>(std::min_element(grid.begin(), grid.end(), cheaper) - grid.begin());
}

}  // namespace croupier::tools

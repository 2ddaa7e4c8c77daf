#include "hot_sets/sizing.h"

#include <algorithm>
#include <vector>

#include "hot_sets/monotone_curve.h"

namespace croupier::hot_sets {
namespace {

// Between two sizes of the grid the derivative may change its sign more than once.
constexpr int kLooksInCell = 32;
constexpr int kHalvings = 40;

MonotoneCurve curve_of(std::span<const SizedCost> grid, double SizedCost::*value) {
    std::vector<double> x;
    std::vector<double> y;
    for (const SizedCost& each : grid) {
        x.push_back(each.hot);
        y.push_back(each.*value);
    }
    return {std::move(x), std::move(y)};
}

double zero_between(const std::function<double(double)>& slope, double falling, double rising) {
    for (int i = 0; i < kHalvings; ++i) {
        const double middle = (falling + rising) / 2.0;
        (slope(middle) < 0.0 ? falling : rising) = middle;
    }
    return (falling + rising) / 2.0;
}

// The cheapest of the places where the cost stops to fall, and of the grid's ends.
double stationary_of(const ExpectedCost& expected, std::span<const SizedCost> grid) {
    double best =
        expected.us(grid.front().hot) < expected.us(grid.back().hot) ? grid.front().hot : grid.back().hot;
    for (std::size_t cell = 1; cell < grid.size(); ++cell) {
        const double width = static_cast<double>(grid[cell].hot - grid[cell - 1].hot) / kLooksInCell;
        for (int look = 0; look < kLooksInCell; ++look) {
            const double left = grid[cell - 1].hot + width * look;
            if (!(expected.slope(left) < 0.0 && expected.slope(left + width) >= 0.0)) continue;
            const double zero = zero_between(expected.slope, left, left + width);
            if (expected.us(zero) <= expected.us(best)) best = zero;
        }
    }
    return best;
}

}  // namespace

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

double fit_proposal_us(const AffineFit& hot_path, std::span<const SizedCost> grid) {
    double more_more = 0.0;
    double more_us = 0.0;
    for (const SizedCost& each : grid) {
        const double more = (each.proposals - 1.0) / each.mean_us;
        more_more += more * more;
        more_us += more * (each.mean_us - hot_path.us(each.hot)) / each.mean_us;
    }
    return more_more > 0.0 ? more_us / more_more : 0.0;
}

ExpectedCost paper_cost(const AffineFit& hot_path, std::span<const SizedCost> grid, std::uint32_t vocab) {
    const MonotoneCurve alpha = curve_of(grid, &SizedCost::alpha);
    const auto us = [=](double hot) {
        const double covered = alpha.at(hot);
        return hot_path.us(covered * hot + (1.0 - covered) * (vocab - hot));
    };
    const auto slope = [=](double hot) {
        return hot_path.c * (2.0 * alpha.at(hot) - 1.0 + (2.0 * hot - vocab) * alpha.slope(hot));
    };
    return {us, slope};
}

ExpectedCost proposals_cost(const AffineFit& hot_path, double proposal_us, std::span<const SizedCost> grid) {
    const MonotoneCurve proposals = curve_of(grid, &SizedCost::proposals);
    const auto us = [=](double hot) { return hot_path.us(hot) + proposal_us * (proposals.at(hot) - 1.0); };
    const auto slope = [=](double hot) { return hot_path.c + proposal_us * proposals.slope(hot); };
    return {us, slope};
}

BestSize best_expected(const ExpectedCost& expected, std::span<const SizedCost> grid) {
    BestSize best;
    best.stationary = stationary_of(expected, grid);
    const auto above = std::find_if(grid.begin() + 1, grid.end() - 1,
                                    [&](const SizedCost& each) { return each.hot >= best.stationary; });
    const auto below = above - 1;
    best.place = static_cast<std::size_t>(
        (expected.us(below->hot) <= expected.us(above->hot) ? below : above) - grid.begin());
    return best;
}

std::size_t best_measured(std::span<const SizedCost> grid) {
    const auto cheaper = [](const SizedCost& a, const SizedCost& b) { return a.mean_us < b.mean_us; };
    return static_cast<std::size_t>(std::min_element(grid.begin(), grid.end(), cheaper) - grid.begin());
}

}  // namespace croupier::hot_sets

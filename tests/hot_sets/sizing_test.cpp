// The sizing model on made-up costs.
#include "hot_sets/sizing.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "hot_sets/monotone_curve.h"
#include "measurement/hot_draws.h"
#include "measurement/percentiles.h"

namespace croupier::hot_sets {
namespace {

constexpr double kC = 0.001;
constexpr double kC0 = 4.0;
constexpr double kProposal = 0.125;
constexpr std::uint32_t kVocab = 65536;

// So that F(H) is least at sqrt(t a / c) with a = 8000: 1000.
double proposals_of(double hot) {
    return 1.0 + 8000.0 / hot;
}

double alpha_of(double hot) {
    return 1.0 - std::exp(-std::sqrt(hot / 512.0));
}

double alpha_slope_of(double hot) {
    return std::exp(-std::sqrt(hot / 512.0)) / (2.0 * std::sqrt(hot * 512.0));
}

std::vector<SizedCost> made_up_grid() {
    std::vector<SizedCost> grid;
    for (double hot = 64; hot <= kVocab; hot *= std::sqrt(2.0)) {
        const double whole = std::round(hot);
        const double mean_us = kC0 + kC * whole + kProposal * (proposals_of(whole) - 1.0);
        grid.push_back({static_cast<std::uint32_t>(whole), alpha_of(whole), kC0 + kC * whole, mean_us,
                        proposals_of(whole)});
    }
    return grid;
}

}  // namespace

TEST_CASE("sizing: an affine cost is found again, and what a proposal costs") {
    const std::vector<SizedCost> grid = made_up_grid();
    const AffineFit fit = fit_hot_path(grid);
    CHECK(fit.c == Approx(kC));
    CHECK(fit.c0 == Approx(kC0));
    CHECK(fit.r2 == Approx(1.0));
    CHECK(fit_proposal_us(fit, grid) == Approx(kProposal));
}

TEST_CASE("sizing: what bends is no good fit") {
    std::vector<SizedCost> grid = made_up_grid();
    grid.back().hot_path_us *= 3.0;
    grid[grid.size() - 2].hot_path_us /= 3.0;
    CHECK(fit_hot_path(grid).r2 < 0.95);
}

TEST_CASE("sizing: the best size is where the cost of proposals stands still, then a size of the grid") {
    const std::vector<SizedCost> grid = made_up_grid();
    const ExpectedCost expected = proposals_cost(fit_hot_path(grid), kProposal, grid);
    const BestSize best = best_expected(expected, grid);
    CHECK(best.stationary == Approx(1000.0).epsilon(0.05));
    CHECK(best.place == best_measured(grid));
    CHECK(grid[best.place].hot == 1024);
    CHECK(expected.us(1024) == Approx(grid[best.place].mean_us));
}

TEST_CASE("sizing: where the cost only rises or only falls, an end of the grid is best") {
    std::vector<SizedCost> grid = made_up_grid();
    const AffineFit fit = fit_hot_path(grid);
    CHECK(best_expected(proposals_cost(fit, 1e-6, grid), grid).place == 0);
    CHECK(best_expected(proposals_cost(fit, 1e6, grid), grid).place == grid.size() - 1);
}

TEST_CASE("sizing: the paper's best size satisfies its equation 12") {
    const std::vector<SizedCost> grid = made_up_grid();
    const ExpectedCost expected = paper_cost(fit_hot_path(grid), grid, kVocab);
    const double hot = 4096.0;
    CHECK(expected.us(hot) ==
          Approx(kC0 + kC * (alpha_of(hot) * hot + (1.0 - alpha_of(hot)) * (kVocab - hot))));
    const double best = best_expected(expected, grid).stationary;
    CHECK(best > 64.0);
    CHECK(best < kVocab / 2.0);
    CHECK(2.0 * alpha_of(best) + (2.0 * best - kVocab) * alpha_slope_of(best) == Approx(1.0).epsilon(0.03));
}

TEST_CASE("sizing: a curve passes its points and never overshoots them") {
    const MonotoneCurve curve({0.0, 1.0, 2.0, 4.0, 8.0}, {0.0, 0.0, 3.0, 3.1, 9.0});
    CHECK(curve.at(2.0) == Approx(3.0));
    CHECK(curve.at(8.0) == Approx(9.0));
    double last = 0.0;
    for (double x = 0.0; x <= 8.0; x += 0.01) {
        CHECK(curve.at(x) >= last - 1e-12);
        CHECK(curve.slope(x) >= -1e-12);
        last = curve.at(x);
    }
    constexpr double kStep = 1e-6;
    CHECK((curve.at(3.0 + kStep) - curve.at(3.0 - kStep)) / (2.0 * kStep) == Approx(curve.slope(3.0)));
}

TEST_CASE("sizing: hot sets are whole blocks") {
    CHECK(measurement::whole_blocks({64, 65, 1, 100, 0, 128}, 1000) ==
          std::vector<std::uint32_t>{0, 64, 128});
    CHECK(measurement::whole_blocks({999, 1000}, 1000) == std::vector<std::uint32_t>{1000});
    CHECK_THROWS_WITH(measurement::whole_blocks({1001}, 1000),
                      Catch::Contains("1001 ids; allowed: 0 to 1000"));
    CHECK(measurement::sizes_to_try(1000) == std::vector<std::uint32_t>{256, 384, 512, 768, 1000});
}

TEST_CASE("sizing: a mean of the middle half forgets what was disturbed") {
    CHECK(measurement::middle_mean({1.0, 2.0, 3.0, 1000.0}) == Approx(2.5));
    CHECK(measurement::middle_mean({5.0}) == Approx(5.0));
}

}  // namespace croupier::hot_sets

#include <catch2/catch.hpp>
#include <vector>

#include "tools/shvs_bench/sizing.h"

namespace croupier::tools {
namespace {

std::vector<SizedCost> grid_of(double c, double c0) {
    std::vector<SizedCost> grid;
    for (const std::uint32_t hot : {100U, 200U, 400U, 800U}) {
        grid.push_back({hot, 0.0, c0 + c * hot, 0.0});
    }
    return grid;
}

}  // namespace

TEST_CASE("sizing: an affine cost is found again") {
    const AffineFit fit = fit_hot_path(grid_of(0.25, 3.0));
    CHECK(fit.c == Approx(0.25));
    CHECK(fit.c0 == Approx(3.0));
    CHECK(fit.r2 == Approx(1.0));
}

TEST_CASE("sizing: what bends is no good fit") {
    std::vector<SizedCost> grid = grid_of(0.25, 3.0);
    grid[3].hot_path_us *= 3.0;
    CHECK(fit_hot_path(grid).r2 < 0.95);
}

TEST_CASE("sizing: the expected cost weighs the hot path against the tail, as equation 10 does") {
    const AffineFit fit = {0.5, 10.0, 1.0};
    CHECK(fit.expected_us({100, 1.0, 0.0, 0.0}, 1000) == Approx(60.0));
    CHECK(fit.expected_us({100, 0.9, 0.0, 0.0}, 1000) == Approx(10.0 + 0.5 * (90.0 + 90.0)));
    std::vector<SizedCost> grid = grid_of(0.5, 10.0);
    grid[0].alpha = 0.5;
    grid[1].alpha = 0.95;
    grid[2].alpha = 0.96;
    grid[3].alpha = 0.97;
    CHECK(best_expected(fit, grid, 1000) == 1);
    grid[2].mean_us = -1.0;
    CHECK(best_measured(grid) == 2);
}

}  // namespace croupier::tools

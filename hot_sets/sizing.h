// What a hot set of each size is expected to cost: the SIMPLE paper's sizing model (section 5.4), and the
// same for draws by proposals (docs/decisions/0007).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace croupier::hot_sets {

struct SizedCost {
    std::uint32_t hot = 0;
    double alpha = 0.0;        // mean mass of the hot set
    double hot_path_us = 0.0;  // mean of the decisions whose first candidate, a hot one, was accepted
    double mean_us = 0.0;      // of all
    double proposals = 1.0;    // expected of a draw
};

// T(H) = c0 + c H, by least squares over the hot path.
struct AffineFit {
    double c = 0.0;
    double c0 = 0.0;
    double r2 = 0.0;

    double us(double hot) const { return c0 + c * hot; }
};

// Of two or more sizes.
AffineFit fit_hot_path(std::span<const SizedCost> grid);

// What one more proposal costs. Least squares of the relative errors: a throughput is what the model is for.
double fit_proposal_us(const AffineFit& hot_path, std::span<const SizedCost> grid);

// F(H) and its derivative, between the grid's sizes too: what a size covers is interpolated.
struct ExpectedCost {
    std::function<double(double)> us;
    std::function<double(double)> slope;
};

// Equation 10: F(H) = c0 + c (alpha H + (1 - alpha) (V - H)).
ExpectedCost paper_cost(const AffineFit& hot_path, std::span<const SizedCost> grid, std::uint32_t vocab);
// F(H) = c0 + c H + t (rho(H) - 1).
ExpectedCost proposals_cost(const AffineFit& hot_path, double proposal_us, std::span<const SizedCost> grid);

struct BestSize {
    double stationary = 0.0;  // where the derivative is zero, as equation 12 wants it; else the cheaper end
    std::size_t place = 0;    // in the grid: the cheaper of its neighbours
};
BestSize best_expected(const ExpectedCost& expected, std::span<const SizedCost> grid);

// The place in the grid of the least measured cost.
std::size_t best_measured(std::span<const SizedCost> grid);

}  // namespace croupier::hot_sets

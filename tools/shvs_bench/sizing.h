// The SIMPLE paper's sizing model (section 5.4): what a hot set of each size costs, and which is best.
#pragma once

#include <cstdint>
#include <span>

namespace croupier::tools {

struct SizedCost {
    std::uint32_t hot = 0;
    double alpha = 0.0;        // mean mass of the hot set
    double hot_path_us = 0.0;  // mean of the decisions whose candidate was accepted
    double mean_us = 0.0;      // of all
};

// T(H) = c0 + c H, by least squares over the hot path.
struct AffineFit {
    double c = 0.0;
    double c0 = 0.0;
    double r2 = 0.0;

    // Equation 10: F(H) = c0 + c (alpha H + (1 - alpha) (V - H)).
    double expected_us(const SizedCost& at, std::uint32_t vocab) const;
};

// Of two or more sizes.
AffineFit fit_hot_path(std::span<const SizedCost> grid);

// The places in the grid of the least expected and the least measured cost.
std::size_t best_expected(const AffineFit& fit, std::span<const SizedCost> grid, std::uint32_t vocab);
std::size_t best_measured(std::span<const SizedCost> grid);

}  // namespace croupier::tools

// A linear model of a step's time on a host: a sum of a few cost terms, fitted to measured steps.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace croupier::tools {

struct StepWork {
    double columns = 1.0;  // columns that the busiest sampler decides in sequence
    std::uint32_t vocab = 0;
    std::uint32_t batch = 1;
    std::uint32_t tp = 1;
    std::uint32_t samplers = 1;
    double stage_ms = 0.0;
};

struct TimedWork {
    StepWork work;
    double us = 0.0;
};

class StepCost {
  public:
    // Fits by least squares of the relative errors; outliers have less weight. No coefficient is negative, so
    // more work never costs less.
    explicit StepCost(std::span<const TimedWork> steps);

    double step_us(const StepWork& work) const;
    double column_us(const StepWork& work)
        const;  // per column of the busiest sampler, without the cost of starting the step

  private:
    // Coefficients in the order of `parts_of`.
    static constexpr std::size_t kParts = 12;
    using Parts = std::array<double, kParts>;
    Parts parts_of(const StepWork& work) const;

    double shortest_stage_ms_;  // of the fitted steps
    Parts us_{};
};

}  // namespace croupier::tools

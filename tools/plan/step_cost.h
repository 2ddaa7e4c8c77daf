// What a step costs on a host, as a sum of few parts, each of which has a reason, fitted to measured steps.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace croupier::tools {

struct StepWork {
    double columns = 1.0;  // that the busiest sampler decides, one after another
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
    // By least squares of the relative errors; what lies far off counts less. Parts that these steps cannot
    // tell apart share what they explain. No part is negative: more work never costs less.
    explicit StepCost(std::span<const TimedWork> steps);

    double step_us(const StepWork& work) const;
    double column_us(const StepWork& work) const;  // of the busiest sampler's, without the step's start

  private:
    // In the order of `parts_of`.
    static constexpr std::size_t kParts = 12;
    using Parts = std::array<double, kParts>;
    Parts parts_of(const StepWork& work) const;

    double shortest_stage_ms_;  // of the steps that this is fitted to
    Parts us_{};
};

}  // namespace croupier::tools

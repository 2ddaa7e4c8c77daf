// What a step will take: how samplers divide its columns, played; what a column of the busiest one's costs,
// fitted to the measured steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/plan/measured_step.h"
#include "tools/plan/step_cost.h"

namespace croupier::tools {

struct Prediction {
    std::uint32_t samplers = 1;
    double p50_us = 0.0;
    double p99_us = 0.0;     // as far above p50 as in the nearest measured step
    double column_us = 0.0;  // that a column usually takes the slowest of so many samplers
    double played_us = 0.0;  // p50 of what the columns alone take, divided among the samplers
};

class StepModel {
  public:
    // Of the measured steps those whose requests are the setting's. Throws std::runtime_error where there are
    // none, or none of such a vocabulary, and says what would measure them.
    StepModel(const std::vector<MeasuredStep>& measured, const Setting& setting);

    Prediction predict(std::uint32_t samplers) const;
    std::uint32_t most_samplers() const;  // that were measured
    std::uint64_t sampler_bytes() const;
    std::uint64_t supervisor_bytes() const;
    // Where the setting lies outside of what was measured, and what was taken instead.
    const std::vector<std::string>& notes() const { return notes_; }

  private:
    void check_vocabulary() const;
    // Notes where it is another than was asked for.
    template <typename Number>
    Number nearest_measured(const char* what, Number asked, Number Setting::*field);

    Setting setting_;
    Setting near_;  // the same, within what was measured
    std::vector<MeasuredStep> steps_;
    StepCost cost_;
    std::vector<std::string> notes_;
};

}  // namespace croupier::tools

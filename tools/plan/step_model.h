// Predicts a step's time: simulates how samplers share its columns, and fits the cost of a column to
// measurements.
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
    double p99_us = 0.0;      // p50 times the ratio p99 / p50 of the nearest measured step
    double column_us = 0.0;   // typical time of a column on the slowest sampler
    double columns_us = 0.0;  // p50 of the time for the columns, shared among the samplers
};

class StepModel {
  public:
    // Uses the measured steps with the same requests. Throws std::runtime_error if there are none, or none
    // with a similar vocabulary; the message says how to measure them.
    StepModel(const std::vector<MeasuredStep>& measured, const Setting& setting);

    Prediction predict(std::uint32_t samplers) const;
    std::uint32_t most_samplers() const;  // in the measurement
    std::uint64_t sampler_bytes() const;
    std::uint64_t supervisor_bytes() const;
    // Says where the setting is outside the measured range and which value is used instead.
    const std::vector<std::string>& notes() const { return notes_; }

  private:
    void check_vocabulary() const;
    // Adds a note if the value differs from the requested one.
    template <typename Number>
    Number nearest_measured(const char* what, Number asked, Number Setting::*field);

    Setting setting_;
    Setting near_;  // the setting, clamped to the measured range
    std::vector<MeasuredStep> steps_;
    StepCost cost_;
    std::vector<std::string> notes_;
};

}  // namespace croupier::tools

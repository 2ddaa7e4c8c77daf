// What a step will take: its columns' costs, measured; how samplers divide them, played; and what a step took
// beyond that where it was measured: waking, claims, the bell.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/plan/measured_step.h"

namespace croupier::tools {

struct Prediction {
    std::uint32_t samplers = 1;
    double p50_us = 0.0;
    double p99_us = 0.0;     // as far above p50 as it was measured
    double column_us = 0.0;  // that a column usually takes, with so many samplers at work
    double played_us = 0.0;  // p50 of what the columns alone take, divided among the samplers
};

struct PlayedStep {
    MeasuredStep step;
    double played_us = 0.0;
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
    void note_outside(const char* what, std::uint32_t asked, std::uint32_t Setting::*field);

    Setting setting_;
    std::vector<PlayedStep> played_;
    std::vector<std::string> notes_;
};

}  // namespace croupier::tools

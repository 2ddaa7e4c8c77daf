// Simulates how long samplers work on a step, given the times of its columns: distributes the columns of many
// steps and follows how samplers share them.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/plan/measured_step.h"

namespace croupier::tools {

// Microseconds from complete logits to the end of the last column, for many simulated steps, ascending.
// Deterministic.
std::vector<double> step_spans(const ColumnTimes& columns, std::uint32_t batch, std::uint32_t samplers);

// `ascending`: sorted values.
double median_of(const std::vector<double>& ascending);

}  // namespace croupier::tools

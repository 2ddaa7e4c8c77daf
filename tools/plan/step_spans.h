// How long the samplers of a step are at work, from what its columns cost: many steps are dealt out and
// played, column by column, as samplers divide them.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/plan/measured_step.h"

namespace croupier::tools {

// Microseconds from logits that every sampler sees at once to the last column's end, ascending, of many
// steps. The same for the same arguments.
std::vector<double> step_spans(const ColumnTimes& columns, std::uint32_t batch, std::uint32_t samplers);

// Of ascending values.
double median_of(const std::vector<double>& ascending);

}  // namespace croupier::tools

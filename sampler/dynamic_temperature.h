// The dynamic temperature of a row whose entropy is known to lie in an interval, and how far a race at one
// temperature of the resulting interval may differ from a race at another.
#pragma once

#include <optional>

#include "proto/sampling.h"
#include "sampler/winner_question.h"

namespace croupier::sampler {

struct TemperatureInterval {
    double temperature;
    float margin;  // of scores: a winner by more wins at all the others too
};

// Nothing if too little is known.
std::optional<TemperatureInterval> dynamic_temperature_interval(const proto::SamplingParams& params,
                                                                const WinnerQuestion& row);

}  // namespace croupier::sampler

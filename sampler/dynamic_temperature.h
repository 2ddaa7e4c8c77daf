// The dynamic temperature of a row whose entropy is known to lie in an interval, and how far a race at one
// temperature of the resulting interval may differ from a race at another.
#pragma once

#include <optional>

#include "proto/sampling.h"
#include "sampler/winner_question.h"

namespace croupier::sampler {

struct TemperatureInterval {
    double low;
    double high;
    float margin;    // of scores at the middle: a winner by more wins at all the others too
    float rounding;  // of scores at both ends: who wins by more at each wins at all between

    double middle() const { return (low + high) / 2.0; }
};

// Nothing if too little is known.
std::optional<TemperatureInterval> dynamic_temperature_interval(const proto::SamplingParams& params,
                                                                const WinnerQuestion& row);

}  // namespace croupier::sampler

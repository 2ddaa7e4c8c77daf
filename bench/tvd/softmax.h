// What a step's tokens ought to be drawn by, in plain double precision: it shares no code with the sampler.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/tvd/steps.h"

namespace croupier::bench {

// Of a step without filters; by id.
std::vector<double> softmax_of(const measurement::BenchRows& rows, const JudgedStep& step);

// Draws from a distribution with a generator of the caller's.
class PlainDraws {
  public:
    explicit PlainDraws(const std::vector<double>& probabilities);

    // The token that a uniform number of [0, 1) falls on.
    std::uint32_t draw(double uniform) const;

  private:
    std::vector<double> running_;
    std::vector<std::uint32_t> guide_;  // by the leading bits of the number: where to begin
};

}  // namespace croupier::bench

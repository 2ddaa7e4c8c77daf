// The exact distribution of a step in double precision. Shares no code with the sampler.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/tvd/steps.h"

namespace croupier::bench {

// The probabilities of a step without filters, by id.
std::vector<double> softmax_of(const measurement::BenchRows& rows, const JudgedStep& step);

// Draws from a distribution with the caller's generator.
class PlainDraws {
  public:
    explicit PlainDraws(const std::vector<double>& probabilities);

    // The token for a uniform number in [0, 1).
    std::uint32_t draw(double uniform) const;

  private:
    std::vector<double> running_;
    std::vector<std::uint32_t> guide_;  // where to begin the search, by the leading bits of the number
};

}  // namespace croupier::bench

// What simulated requests ask for, by the names that `croupier sim --mix` and `croupier plan --mix` know.
#pragma once

#include <array>

namespace croupier::sim {

// In the order of sim::SimMix.
inline constexpr std::array kRequestMixes = {"greedy",      "plain", "full", "fixed", "fixed-temperature",
                                             "fixed-top-p", "mixed"};

}  // namespace croupier::sim

// Names of request mixes for `croupier sim --mix` and `croupier plan --mix`.
#pragma once

#include <array>

namespace croupier::sim {

// In the order of sim::SimMix.
inline constexpr std::array kRequestMixes = {"greedy",      "plain", "full", "fixed", "fixed-temperature",
                                             "fixed-top-p", "mixed"};

}  // namespace croupier::sim

// What people call the values of those parameters that are a choice, in the order of the values.
#pragma once

#include <array>

#include "proto/sampling.h"

namespace croupier::proto {

inline constexpr std::array kStepNames = {"penalties", "dry",   "top_n_sigma", "temperature", "min_p",
                                          "top_k",     "top_p", "typical_p",   "xtc"};
inline constexpr std::array kRngNames = {"race", "shvs", "sglang", "vllm"};
inline constexpr std::array kLogprobModeNames = {"raw", "processed"};

// The end of an order has no name.
static_assert(kStepNames.size() + 1 == static_cast<std::size_t>(Step::count_));
static_assert(kRngNames.size() == static_cast<std::size_t>(Rng::count_));
static_assert(kLogprobModeNames.size() == static_cast<std::size_t>(LogprobMode::count_));

}  // namespace croupier::proto

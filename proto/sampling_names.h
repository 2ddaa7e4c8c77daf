// What people call the values of those parameters that are a choice, and of errors, in the order of the
// values.
#pragma once

#include <array>
#include <cstdint>

#include "proto/sampling.h"

namespace croupier::proto {

inline constexpr std::array kStepNames = {"penalties", "dry",   "top_n_sigma", "temperature", "min_p",
                                          "top_k",     "top_p", "typical_p",   "xtc"};
inline constexpr std::array kRngNames = {"race", "shvs", "sglang", "vllm"};
inline constexpr std::array kLogprobModeNames = {"raw", "processed"};

struct FlagName {
    std::uint32_t flag;
    const char* name;
};
// As `croupier decide` has them among its parameters; of kNoLogprob it has the lack of `logprobs`.
inline constexpr std::array kParameterFlagNames = {FlagName{kIgnoreEos, "ignore_eos"},
                                                   FlagName{kStopsOnlyBan, "stops_only_ban"},
                                                   FlagName{kRankCountsTies, "rank_counts_ties"}};

inline constexpr std::array kDecisionErrorNames = {
    "none",       "nan_logit",       "infinite_logit", "no_token_left", "bad_parameter",
    "bad_token",  "bad_sequence",    "bad_position",   "bad_mask",      "sequence_full",
    "bad_record", "sampler_crashed", "given_up",       "voided",        "no_memory"};

// The end of an order has no name.
static_assert(kStepNames.size() + 1 == static_cast<std::size_t>(Step::count_));
static_assert(kRngNames.size() == static_cast<std::size_t>(Rng::count_));
static_assert(kLogprobModeNames.size() == static_cast<std::size_t>(LogprobMode::count_));
static_assert(kDecisionErrorNames.size() == static_cast<std::size_t>(DecisionError::count_));

}  // namespace croupier::proto

// Which requests are drawn where their rows are: who sends a row and who decides it judge by the same.
#pragma once

#include <algorithm>
#include <cstdint>

#include "proto/sampling.h"
#include "proto/sampling_fields.h"

namespace croupier::proto {

// What a request's race divides logits by, where nothing else makes its temperature; 0: it is greedy.
constexpr float race_temperature(const SamplingParams& params) {
    constexpr double kGreedyBelow = 1e-5;
    constexpr double kLowest = 0.01;
    return params.temperature < kGreedyBelow ? 0.0F
                                             : static_cast<float>(std::max(params.temperature, kLowest));
}

// What stands beside a request's parameters.
struct RequestRules {
    bool limits = false;   // allowed ids, or a grammar mask
    bool changes = false;  // biases, bad words, or stop ids that are forbidden yet
};

// Whether the token is the winner of the race among all tokens at that temperature, or the first maximum, by
// the logits as they stand, and nothing else of the row is asked for.
constexpr bool draws_plainly(const SamplingParams& params, const RequestRules& rules, std::uint32_t vocab) {
    const bool wants_token_alone = (params.flags & kNoLogprob) != 0 && params.support == 0;
    const bool adjusts = fields::repetition_penalty.is_on(params) ||
                         fields::frequency_penalty.is_on(params) || fields::presence_penalty.is_on(params) ||
                         fields::dry_multiplier.is_on(params) || rules.changes;
    const bool usual = params.rng == Rng::race && params.order[0] == Step::end;
    if (!wants_token_alone || adjusts || rules.limits || !usual) return false;
    if (race_temperature(params) == 0.0F) return true;
    // Engines write the vocabulary's size for a top-k that is off.
    const bool keeps_best = fields::top_k.is_on(params) && static_cast<std::uint32_t>(params.top_k) < vocab;
    const bool filters = keeps_best || fields::top_n_sigma.is_on(params) || fields::min_p.is_on(params) ||
                         fields::top_p.is_on(params) || fields::typical_p.is_on(params) ||
                         fields::xtc_probability.is_on(params);
    const bool replaced = fields::mirostat.is_on(params) || fields::adaptive_target.is_on(params) ||
                          fields::dynatemp_range.is_on(params);
    return !filters && !replaced;
}

}  // namespace croupier::proto

// Which requests are drawn where their rows are: who sends a row and who decides it judge by the same.
#pragma once

#include <cstdint>

#include "proto/sampling.h"
#include "proto/sampling_fields.h"
#include "proto/sampling_steps.h"

namespace croupier::proto {

// What a request's race divides logits by, where nothing else makes its temperature; 0: it is greedy.
constexpr float race_temperature(const SamplingParams& params) {
    return is_greedy(params) ? 0.0F : static_cast<float>(draw_temperature(params));
}

// What stands beside a request's parameters, but for a grammar mask.
struct RequestRules {
    bool lists = false;    // allowed ids
    bool changes = false;  // biases, bad words, or stop ids that are forbidden yet
};

constexpr bool wants_logprob(const SamplingParams& params) {
    return (params.flags & kNoLogprob) == 0;
}

// Something else than the race at a temperature that the request says.
constexpr bool replaces_race(const SamplingParams& params) {
    return fields::mirostat.is_on(params) || fields::adaptive_target.is_on(params) ||
           fields::dynatemp_range.is_on(params);
}

// Whether the token is the winner of the race among all tokens that its mask allows at that temperature, or
// the first maximum of these, by the logits as they stand, and nothing else of the row is asked for.
constexpr bool draws_plainly(const SamplingParams& params, const RequestRules& rules, std::uint32_t vocab) {
    const bool wants_token_alone = !wants_logprob(params) && params.support == 0;
    const bool usual = params.rng == Rng::race && params.order[0] == Step::end;
    if (!wants_token_alone || lowers_or_raises(params) || rules.changes || rules.lists || !usual)
        return false;
    if (race_temperature(params) == 0.0F) return true;
    const bool filters = is_switched_on(with_plain_top_k(params, vocab), Step::top_k) ||
                         is_switched_on(params, Step::top_n_sigma) || is_switched_on(params, Step::min_p) ||
                         is_switched_on(params, Step::top_p) || is_switched_on(params, Step::typical_p) ||
                         is_switched_on(params, Step::xtc);
    return !filters && !replaces_race(params);
}

constexpr bool wants_processed(const SamplingParams& params) {
    return wants_logprob(params) && params.logprob_mode == LogprobMode::processed;
}

// Whether the log-prob is that of all tokens as they stand, at a temperature that the request says: what the
// row weighs tells it.
constexpr bool processed_by_weight(const SamplingParams& params, const RequestRules& rules) {
    // A greedy draw's support is one token, whatever the others weigh.
    if (!wants_processed(params) || (params.support > 0 && !is_greedy(params))) return false;
    if (lowers_or_raises(params) || rules.changes || rules.lists) return false;
    return is_greedy(params) || (!is_truncated(params) && !replaces_race(params));
}

// At which it is that: a greedy request's is the distribution at 1.
constexpr double processed_scale(const SamplingParams& params) {
    return is_greedy(params) ? 1.0 : 1.0 / draw_temperature(params);
}

}  // namespace croupier::proto

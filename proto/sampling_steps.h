// Which steps of a request's parameters do anything: who sends a row and who decides it judge by the same.
#pragma once

#include <cstdint>

#include "proto/sampling.h"
#include "proto/sampling_fields.h"

namespace croupier::proto {

constexpr bool is_switched_on(const SamplingParams& params, Step step) {
    switch (step) {
        case Step::penalties:
            return fields::penalty_last_n.is_on(params) &&
                   (fields::repetition_penalty.is_on(params) || fields::frequency_penalty.is_on(params) ||
                    fields::presence_penalty.is_on(params));
        case Step::dry:
            return fields::dry_multiplier.is_on(params) && fields::dry_penalty_last_n.is_on(params);
        case Step::top_n_sigma:
            return fields::top_n_sigma.is_on(params);
        case Step::temperature:
            return true;
        case Step::min_p:
            return fields::min_p.is_on(params);
        case Step::top_k:
            return fields::top_k.is_on(params);
        case Step::top_p:
            return fields::top_p.is_on(params);
        case Step::typical_p:
            return fields::typical_p.is_on(params);
        case Step::xtc:
            return fields::xtc_probability.is_on(params) && fields::xtc_threshold.is_on(params);
        case Step::end:
        case Step::count_:
            break;
    }
    return false;
}

constexpr bool lowers_or_raises(const SamplingParams& params) {
    return is_switched_on(params, Step::penalties) || is_switched_on(params, Step::dry);
}

// The best token has no less than its part of all: a top-p below that leaves it alone. Filters that may drop
// the best one come before it in the usual order, and other orders are left as they are.
constexpr bool keeps_best_alone(const SamplingParams& params, std::uint32_t vocab) {
    const bool others = is_switched_on(params, Step::typical_p) || is_switched_on(params, Step::xtc) ||
                        fields::mirostat.is_on(params) || fields::adaptive_target.is_on(params);
    // By half: the masses that are compared are whole numbers.
    return params.top_p * vocab <= 0.5 && !others && params.order[0] == Step::end;
}

// Engines write the vocabulary's size for a top-k that is off, and their clients a tiny top-p for a top-k of
// 1. (What a draw is named after is what was asked for.)
constexpr SamplingParams with_plain_top_k(SamplingParams params, std::uint32_t vocab) {
    if (params.top_k > 0 && static_cast<std::uint32_t>(params.top_k) >= vocab) params.top_k = 0;
    if (keeps_best_alone(params, vocab)) {
        params.top_k = 1;
        params.top_n_sigma = 0.0;     // it keeps the best
        params.dynatemp_range = 0.0;  // who is alone is drawn at any temperature
    }
    return params;
}

}  // namespace croupier::proto

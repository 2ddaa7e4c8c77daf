// The steps of a request's parameters: which do anything, in which order, and what the first filters let
// through.
#pragma once

#include <algorithm>
#include <cstdint>

#include "proto/sampling.h"

namespace croupier::request {

namespace fields = proto::fields;

using proto::SamplingParams;
using proto::Step;

// Whether the step's parameters have values that do anything, wherever the step stands in the order.
constexpr bool is_switched_on(const SamplingParams& params, Step step) {
    return proto::facts_of(step).is_switched_on(params);
}

// Below it the weights of all but the maximum vanish anyway.
constexpr double kLowestTemperature = 0.01;

// Temperatures below 1e-5 ask for the first maximum, whatever the order says.
constexpr bool is_greedy(const SamplingParams& params) {
    return params.temperature < 1e-5;
}

// 0 < T < 0.01 counts as 0.01.
constexpr double effective_temperature(const SamplingParams& params) {
    return std::max(params.temperature, kLowestTemperature);
}

constexpr bool has_default_order(const SamplingParams& params) {
    return params.order[0] == Step::end;
}

constexpr const proto::StepOrder& order_of(const SamplingParams& params) {
    return has_default_order(params) ? proto::kDefaultOrder : params.order;
}

// Whether the step removes tokens.
constexpr bool is_filter(Step step) {
    return proto::facts_of(step).kind == proto::StepFacts::Kind::filters;
}

constexpr bool changes_logits(Step step) {
    return proto::facts_of(step).kind == proto::StepFacts::Kind::changes_logits;
}

// Whether the step is in the order and its values switch it on. A greedy request takes no steps but
// penalties and DRY.
constexpr bool takes_step(const SamplingParams& params, Step step) {
    if (is_greedy(params) && !changes_logits(step)) return false;
    if (!is_switched_on(params, step)) return false;
    const proto::StepOrder& order = order_of(params);
    return std::find(order.begin(), order.end(), step) != order.end();
}

// Whether penalties or DRY change logits.
constexpr bool takes_adjustment(const SamplingParams& params) {
    return takes_step(params, Step::penalties) || takes_step(params, Step::dry);
}

constexpr bool is_tempered_dynamically(const SamplingParams& params) {
    return params.dynatemp_range > 0.0 && takes_step(params, Step::temperature);
}

// What the draw divides logits by, where nothing but the request itself makes its temperature.
constexpr double draw_temperature(const SamplingParams& params) {
    return takes_step(params, Step::temperature) ? effective_temperature(params) : 1.0;
}

// What the first filters of an order let through at most. The defaults let all tokens through.
struct FirstCut {
    std::int32_t top_k = 0;
    double min_p = 0.0;
    double top_p = 1.0;         // only where no other filter cuts
    double scale = 1.0;         // the inverse temperature at which min_p and top_p weigh
    bool behind_sigma = false;  // of what a top-n sigma leaves
    bool tempered = false;      // behind a temperature that follows from the entropy of all tokens
    std::uint32_t steps = 0;    // how many steps of the order stand before the one that ends the cut

    constexpr bool none() const { return top_k == 0 && min_p == 0.0; }
    constexpr bool by_top_p() const { return top_p < 1.0; }
    constexpr bool by_sigma() const { return behind_sigma && none(); }

    bool operator==(const FirstCut&) const = default;
};

// What a cut is looked for behind.
struct CutBehind {
    // A top-n sigma keeps the best tokens, so that a top-k or a min-p behind it keeps the same of these as of
    // all tokens.
    bool sigma = false;
    // A temperature that depends on the entropy: the cut's scale is then not that of its filters.
    bool dynamic_temperature = false;
};
constexpr FirstCut cut_of(const SamplingParams& params, const CutBehind& behind) {
    FirstCut cut;
    if (is_greedy(params)) cut.top_k = 1;
    for (const Step step : order_of(params)) {
        const bool on = takes_step(params, step);
        // min_p and top_k keep the same tokens in either order, so that both may cut together. A step between
        // them that changes a value or a temperature ends the cut.
        if (cut.min_p > 0.0 && on && step != Step::top_k) break;
        if ((cut.behind_sigma || cut.tempered) && on && changes_logits(step)) break;
        if (on && step == Step::temperature && params.dynatemp_range > 0.0) {
            if (!behind.dynamic_temperature || cut.behind_sigma) break;
            cut.tempered = true;
        } else if (on && step == Step::temperature) {
            cut.scale = 1.0 / effective_temperature(params);
        } else if (on && step == Step::min_p) {
            cut.min_p = params.min_p;
        } else if (on && step == Step::top_n_sigma && behind.sigma && !cut.tempered) {
            cut.behind_sigma = true;
        } else if (on && is_filter(step)) {
            if (step == Step::top_k) cut.top_k = params.top_k;
            const bool is_first = cut.none() && !cut.behind_sigma && !cut.tempered;
            if (step == Step::top_p && is_first) cut.top_p = params.top_p;
            break;
        }
        ++cut.steps;
    }
    return cut;
}

// What else a request's first cut may be.
struct CutBy {
    bool sigma = false;  // what few deviations leave, listed for what comes behind it
    // Behind a dynamic temperature: it is enough to know what that one lies between.
    bool dynamic_temperature = false;
};
constexpr FirstCut first_cut(const SamplingParams& params, const CutBy& by) {
    // Of two deviations below the largest, few of a usual row's tokens are within.
    constexpr double kFewSigmas = 2.0;
    FirstCut cut = cut_of(params, {true, by.dynamic_temperature});
    if (cut.by_sigma() && by.sigma && params.top_n_sigma <= kFewSigmas) return cut;
    if ((cut.behind_sigma || cut.tempered) && cut.none()) return cut_of(params, {});
    // A top-n sigma keeps the best token, and alone it is drawn at any temperature.
    if (cut.top_k == 1) cut.behind_sigma = cut.tempered = false;
    return cut;
}

// Whether every change of logits that is taken stands before what ends the cut: then a token has one value.
constexpr bool changes_first(const SamplingParams& params, const FirstCut& cut) {
    const proto::StepOrder& order = order_of(params);
    return std::none_of(order.begin() + cut.steps, order.end(),
                        [&](Step step) { return changes_logits(step) && takes_step(params, step); });
}

// Whether those that do not stand there stand behind every filter, and behind a temperature that depends on
// the logits.
constexpr bool changes_last(const SamplingParams& params, const FirstCut& cut) {
    const proto::StepOrder& order = order_of(params);
    const auto late = std::find_if(order.begin() + cut.steps, order.end(), [&](Step step) {
        return changes_logits(step) && takes_step(params, step);
    });
    return std::none_of(late, order.end(), [&](Step step) {
        const bool depends = is_filter(step) || (step == Step::temperature && params.dynatemp_range > 0.0);
        return depends && takes_step(params, step);
    });
}

// The request's one filter; Step::end if it has none or several.
constexpr Step only_filter(const SamplingParams& params) {
    Step only = Step::end;
    for (const Step step : order_of(params)) {
        if (!is_filter(step) || !takes_step(params, step)) continue;
        if (only != Step::end) return Step::end;
        only = step;
    }
    return only;
}

// Whether any filter is on: then the draw walks the survivors in canonical order, whatever was removed.
constexpr bool is_truncated(const SamplingParams& params) {
    const proto::StepOrder& order = order_of(params);
    return std::any_of(order.begin(), order.end(),
                       [&](Step step) { return is_filter(step) && takes_step(params, step); });
}

// The best token's share is at least one part in `vocab`: a top-p below that leaves it alone. This holds in
// the default order, where filters that may drop the best token come behind top-p; other orders are left as
// they are.
constexpr bool keeps_best_alone(const SamplingParams& params, std::uint32_t vocab) {
    const bool others = is_switched_on(params, Step::typical_p) || is_switched_on(params, Step::xtc) ||
                        fields::mirostat.is_on(params) || fields::adaptive_target.is_on(params);
    // Half of it, because the masses that are compared are whole numbers.
    return params.top_p * vocab <= 0.5 && !others && has_default_order(params);
}

// The same request without detours: engines write the vocabulary's size for a top-k that is off, and their
// clients a tiny top-p for a top-k of 1. (A draw is named after what was asked for, not after this.)
constexpr SamplingParams with_plain_top_k(SamplingParams params, std::uint32_t vocab) {
    if (params.top_k > 0 && static_cast<std::uint32_t>(params.top_k) >= vocab) params.top_k = 0;
    if (keeps_best_alone(params, vocab)) {
        params.top_k = 1;
        params.top_n_sigma = 0.0;     // it keeps the best token
        params.dynatemp_range = 0.0;  // a token that is alone is drawn at any temperature
    }
    return params;
}

}  // namespace croupier::request

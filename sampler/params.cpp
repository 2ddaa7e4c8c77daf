#include "sampler/params.h"

#include <algorithm>

#include "proto/sampling_fields.h"

namespace croupier::sampler {

namespace fields = proto::fields;

namespace {

using proto::SamplingParams;
using proto::Step;

bool is_switched_on(const SamplingParams& params, Step step) {
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

bool greedy_takes(Step step) {
    return step == Step::penalties || step == Step::dry;
}

}  // namespace

bool is_filter(Step step) noexcept {
    return step != Step::end && step != Step::penalties && step != Step::dry && step != Step::temperature;
}

bool is_greedy(const SamplingParams& params) noexcept {
    return params.temperature < 1e-5;
}

double effective_temperature(const SamplingParams& params) noexcept {
    return std::max(params.temperature, kLowestTemperature);
}

const proto::StepOrder& order_of(const SamplingParams& params) noexcept {
    return params.order[0] == Step::end ? proto::kDefaultOrder : params.order;
}

bool takes_step(const SamplingParams& params, Step step) noexcept {
    if (is_greedy(params) && !greedy_takes(step)) return false;
    if (!is_switched_on(params, step)) return false;
    const proto::StepOrder& order = order_of(params);
    return std::find(order.begin(), order.end(), step) != order.end();
}

bool is_truncated(const SamplingParams& params) noexcept {
    const proto::StepOrder& order = order_of(params);
    return std::any_of(order.begin(), order.end(),
                       [&params](Step step) { return is_filter(step) && takes_step(params, step); });
}

bool perturbs_logits(const SamplingParams& params) noexcept {
    return params.rng == proto::Rng::sglang || params.rng == proto::Rng::vllm;
}

SamplingParams params_of_child(const SamplingParams& params, std::uint32_t i) noexcept {
    SamplingParams child = params;
    if (perturbs_logits(params)) {
        child.seed += i;
    } else {
        child.child += i;
    }
    return child;
}

bool has_mirostat(const SamplingParams& params) noexcept {
    return fields::mirostat.is_on(params) && !is_greedy(params);
}

bool has_adaptive_p(const SamplingParams& params) noexcept {
    return fields::adaptive_target.is_on(params) && !is_greedy(params);
}

}  // namespace croupier::sampler

#include "sampler/params.h"

#include <algorithm>

#include "proto/sampling_fields.h"
#include "proto/sampling_steps.h"

namespace croupier::sampler {

namespace fields = proto::fields;

namespace {

using proto::SamplingParams;
using proto::Step;

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
    if (!proto::is_switched_on(params, step)) return false;
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

#include "sampler/chain.h"

#include <span>

#include "sampler/formulas.h"
#include "sampler/params.h"

namespace croupier::sampler {

using proto::SamplingParams;
using proto::Step;

namespace {

bool is_dynamic(const SamplingParams& params) {
    return params.dynatemp_range > 0.0;
}

}  // namespace

Adjustments all_adjustments(const SamplingParams& params) noexcept {
    Adjustments all;
    all.rules = true;
    for (const Step step : order_of(params)) {
        if (request::changes_logits(step) && takes_step(params, step)) note(all, step);
    }
    return all;
}

Pruning pruning_of(const SamplingParams& params, const request::Plan& plan) noexcept {
    Pruning pruning;
    pruning.top_k = plan.cut.top_k;
    pruning.min_p = plan.cut.min_p;
    pruning.scale = plan.cut.scale;
    pruning.gives_up = plan.gives_up;
    pruning.adjustments.rules = true;
    for (const Step step : std::span(order_of(params)).first(plan.cut.steps)) {
        if (request::changes_logits(step) && takes_step(params, step)) note(pruning.adjustments, step);
    }
    return pruning;
}

void Chain::adjust_late(Survivors& survivors, Step step) {
    if (survivors.is_of_row() && !survivors.are_few()) return survivors.adjust(step);
    const std::uint32_t tokens = survivors.flatten();
    const auto candidates = workspace_.candidates.first(tokens);
    for (Candidate& each : candidates) {
        each.value = step == Step::penalties ? adjust_.penalised(each.token, each.value)
                                             : adjust_.repeated(each.token, each.value);
    }
    survivors = Survivors(workspace_, tokens);
}

void Chain::set_temperature(Survivors& survivors) {
    temperature_ = effective_temperature(params_);
    if (!is_dynamic(params_) || survivors.tokens() < 2) return;
    survivors.weigh(1.0);
    temperature_ = dynamic_temperature(params_, survivors.entropy(), survivors.tokens());
}

void Chain::apply(Survivors& survivors, const Adjustments& done, Step applied, std::optional<double> given) {
    temperature_ = 1.0;
    for (const Step step : order_of(params_)) {
        // Only a row that is overwritten meanwhile, or is not as its maxima say, leaves none.
        if (survivors.classes().empty()) return;
        if (step == Step::temperature && given) {
            temperature_ = *given;
        } else if (step == Step::temperature && takes_step(params_, step)) {
            set_temperature(survivors);
        }
        const bool late = (step == Step::penalties && !done.penalties) || (step == Step::dry && !done.dry);
        if (late && takes_step(params_, step)) adjust_late(survivors, step);
        if (!is_filter(step) || !takes_step(params_, step)) continue;
        if (step == applied) continue;
        if (step != Step::top_k && step != Step::top_n_sigma) survivors.weigh(1.0 / temperature_);
        if (step == Step::xtc && !request::xtc_acts(params_, random_position(request_))) continue;
        survivors.filter(step, params_);
    }
}

}  // namespace croupier::sampler

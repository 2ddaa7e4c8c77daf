#include "sampler/chain.h"

#include "sampler/formulas.h"
#include "sampler/gumbel.h"
#include "sampler/params.h"

namespace croupier::sampler {

using proto::SamplingParams;
using proto::Step;

namespace {

bool is_dynamic(const SamplingParams& params) {
    return params.dynatemp_range > 0.0;
}

void note(Adjustments& adjustments, Step step) {
    if (step == Step::dry) adjustments.dry_first = !adjustments.penalties;
    (step == Step::dry ? adjustments.dry : adjustments.penalties) = true;
}

bool adjusts(Step step) {
    return step == Step::penalties || step == Step::dry;
}

}  // namespace

Adjustments all_adjustments(const SamplingParams& params) noexcept {
    Adjustments all;
    all.rules = true;
    for (const Step step : order_of(params)) {
        if (adjusts(step) && takes_step(params, step)) note(all, step);
    }
    return all;
}

Pruning pruning_of(const SamplingParams& params) noexcept {
    Pruning pruning;
    pruning.adjustments.rules = true;
    if (is_greedy(params)) pruning.top_k = 1;
    for (const Step step : order_of(params)) {
        const bool on = takes_step(params, step);
        // min_p and top_k keep the same tokens in either order, so that both may prune together; what would
        // change a value or a temperature between them ends it.
        if (pruning.min_p > 0.0 && on && step != Step::top_k) break;
        if (on && adjusts(step)) {
            note(pruning.adjustments, step);
        } else if (on && step == Step::temperature) {
            if (is_dynamic(params)) break;
            pruning.scale = 1.0 / effective_temperature(params);
        } else if (on && step == Step::min_p) {
            pruning.min_p = params.min_p;
        } else if (on) {
            if (step == Step::top_k) pruning.top_k = params.top_k;
            break;
        }
    }
    return pruning;
}

bool xtc_acts(const SamplingParams& params, const Request& request) noexcept {
    const std::uint32_t random =
        proto::random_at(params.seed, random_position(request), params.child, kXtcStream);
    return open_uniform(random) <= params.xtc_probability;
}

void Chain::adjust_late(Survivors& survivors, Step step) {
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

void Chain::apply(Survivors& survivors, const Adjustments& done) {
    for (const Step step : order_of(params_)) {
        if (step == Step::temperature && takes_step(params_, step)) set_temperature(survivors);
        const bool late = (step == Step::penalties && !done.penalties) || (step == Step::dry && !done.dry);
        if (late && takes_step(params_, step)) adjust_late(survivors, step);
        if (!is_filter(step) || !takes_step(params_, step)) continue;
        survivors.weigh(1.0 / temperature_);
        if (step == Step::top_n_sigma) survivors.keep_n_sigma(params_.top_n_sigma);
        if (step == Step::min_p) survivors.keep_min_p(params_.min_p);
        if (step == Step::top_k) survivors.keep_top_k(static_cast<std::uint32_t>(params_.top_k));
        if (step == Step::top_p) survivors.keep_top_p(params_.top_p);
        if (step == Step::typical_p) survivors.keep_typical(params_.typical_p);
        if (step == Step::xtc && xtc_acts(params_, request_)) survivors.drop_top(params_.xtc_threshold);
    }
    survivors.weigh(1.0 / temperature_);
}

}  // namespace croupier::sampler

#include "sampler/plan.h"

#include "proto/sampling_steps.h"
#include "sampler/chain.h"
#include "sampler/params.h"

namespace croupier::sampler {
namespace {

using proto::SamplingParams;
using proto::Step;

// All tokens that were left, with their shares.
bool wants_distribution(const SamplingParams& params, const Request& request) {
    if (wants_support(params, request) && !is_greedy(params)) return true;
    return proto::wants_processed(params) && !proto::processed_by_weight(params, rules_of(params, request));
}

bool replaces_draw(const SamplingParams& params) {
    return has_mirostat(params) || has_adaptive_p(params);
}

bool can_be_asked(Step step) {
    return step == Step::min_p || step == Step::top_p || step == Step::top_n_sigma || step == Step::xtc ||
           step == Step::typical_p;
}

}  // namespace

proto::RequestRules rules_of(const SamplingParams& params, const Request& request) noexcept {
    const bool bans_stops = request.output.size() < params.min_tokens;
    return {!request.allowed_ids.empty(), !request.bias.empty() || !request.bad_words.empty() || bans_stops};
}

Plan plan_of(const SamplingParams& given, const Request& request, const RowKind& row) noexcept {
    const SamplingParams params = proto::with_plain_top_k(given, row.vocab);
    Plan plan;
    const proto::FirstCut cut = proto::first_cut(params);
    plan.pruning = pruning_of(params, cut);
    plan.adjusts_first = proto::changes_first(params, cut);
    plan.sums_logprob = proto::wants_processed(params) && !wants_distribution(params, request);
    // So many are sooner counted by their values than listed and sorted.
    constexpr std::int32_t kMostListed = 1024;
    const bool counted = plan.pruning.top_k > kMostListed && request.allowed_ids.empty() &&
                         exact_path(given, request, plan, row) == Path::classes;
    if (counted) plan.pruning.top_k = 0;
    const auto take = [&plan](Path path) {
        plan.path = path;
        return plan;
    };
    if (!request.allowed_ids.empty()) return take(Path::listed);
    const Path exact = exact_path(given, request, plan, row);
    if (is_greedy(params) && proto::wants_processed(params) && !plan.sums_logprob) {
        plan.pruning.top_k = 0;
        return take(exact);
    }
    const bool truncated = is_truncated(params);
    const bool tempered = proto::is_tempered_dynamically(params);
    if (!plan.pruning.none()) {
        // How many pass a min-p alone depends on the row: most often few.
        const bool draws = !tempered && !replaces_draw(params) && !wants_distribution(params, request);
        if (draws && plan.adjusts_first && proto::only_filter(params) == Step::min_p)
            plan.asked = Step::min_p;
        if (cut.behind_sigma) plan.applied = Step::top_n_sigma;
        plan.pruning.gives_up =
            plan.pruning.top_k == 0 && (plan.asked == Step::min_p || exact == Path::classes);
        return take(Path::head);
    }
    const bool asks_winner = !wants_distribution(params, request) && plan.adjusts_first &&
                             !replaces_draw(params) && proto::only_filter(params) == Step::top_p;
    if (cut.by_top_p() && !asks_winner) {
        plan.applied = Step::top_p;
        return take(Path::head);
    }
    if (wants_distribution(params, request) || !plan.adjusts_first) return take(exact);
    if (has_mirostat(params) && !truncated && !tempered) return take(Path::mirostat);
    if (replaces_draw(params)) return take(exact);
    if (tempered && !truncated && params.rng == proto::Rng::race) {
        plan.asked = Step::temperature;
        return take(Path::asked);
    }
    if (tempered) return take(exact);
    if (!truncated) return take(proposes(given) ? Path::proposals : Path::race);
    plan.asked = proto::only_filter(params);
    if (plan.asked == Step::xtc && !xtc_acts(params, request)) return take(Path::race);
    return take(can_be_asked(plan.asked) ? Path::asked : exact);
}

bool awaits_race(const SamplingParams& params, const Request& request, const RowKind& row) noexcept {
    const Path path = plan_of(params, request, row).path;
    return !perturbs_logits(params) && !is_greedy(params) &&
           (path == Path::race || path == Path::asked || path == Path::classes);
}

Path exact_path(const SamplingParams& params, const Request& request, const Plan& plan,
                const RowKind& row) noexcept {
    // Adaptive-p's distribution is not of the logits.
    const bool replaced = has_adaptive_p(params) && wants_distribution(params, request);
    const bool by_classes = row.dtype != proto::Dtype::fp32 && !replaced && plan.adjusts_first;
    return by_classes ? Path::classes : Path::whole_row;
}

}  // namespace croupier::sampler

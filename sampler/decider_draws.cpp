// Draws from tokens that were listed or counted by value, and what is answered beside them.
#include <algorithm>
#include <array>
#include <cstddef>

#include "sampler/adaptive_classes.h"
#include "sampler/canonical_order.h"
#include "sampler/class_sums.h"
#include "sampler/decider.h"
#include "sampler/draw.h"
#include "sampler/float_bounds.h"
#include "sampler/formulas.h"
#include "sampler/logprobs.h"
#include "sampler/mirostat_search.h"
#include "sampler/nucleus_search.h"

namespace croupier::sampler {

using proto::DecisionError;

namespace {

BoundedValues bounds_of(const Survivors& survivors) {
    return {float_below(survivors.classes().back().least), float_above(survivors.classes().front().value)};
}

Candidate first_of(std::span<const Candidate> some) {
    return *std::min_element(some.begin(), some.end(), canonically_before);
}

}  // namespace

// What mirostat keeps of all tokens is among the best ones, so that the others need not be looked at.
DecisionError Decider::from_mirostat() {
    auto survivors = MirostatSearch(params_, request_, row_, adjust_, search_, pruning_, workspace_).kept();
    if (!survivors) return answer_exactly();
    drawn_ = draw_mirostat(*survivors, survivors->flatten(), draw_temperature(params_));
    return DecisionError::none;
}

// The same for what a top-p keeps.
DecisionError Decider::from_nucleus() {
    const auto kept = NucleusSearch(params_, row_, adjust_, search_, pruning_, workspace_).kept();
    if (!kept) return answer_without_cut();
    return draw_survivor(*kept);
}

Candidate Decider::draw_mirostat(Survivors& survivors, std::uint32_t tokens, double temperature) {
    const Mass total = survivors.total();
    const Weigher weigher = survivors.weigher();
    const Candidate drawn = race_.winner_among(temperature, workspace_.candidates.first(tokens));
    workspace_.answer_space.feedback = after_mirostat(params_, request_, weigher.mass(drawn.value), total);
    return drawn;
}

void Decider::take_first_maximum(std::uint32_t candidates) {
    drawn_ = first_of(workspace_.candidates.first(candidates));
    if (wants_processed()) note_listed(candidates, 1.0);
    answer_alone();
}

// A greedy draw is from one token.
void Decider::answer_alone() {
    if (!wants_support(params_, request_)) return;
    workspace_.support.front() = {token(), 0, 1.0};
    workspace_.answer_space.support = workspace_.support.first(1);
    workspace_.answer_space.support_total = 1;
}

void Decider::draw_untruncated(std::uint32_t candidates) {
    const double temperature = draw_temperature(params_);
    const auto proposed = proposes(params_) ? propose(scale()) : std::nullopt;
    drawn_ = proposed ? *proposed : winner_listed(candidates, temperature);
    if (wants_distribution()) note_listed(candidates, 1.0 / temperature);
}

// By the request's rng, among the workspace's first candidates.
Candidate Decider::winner_listed(std::uint32_t candidates, double temperature) {
    return perturbs_logits(params_)
               ? draw_perturbed(params_, request_, candidates, temperature, workspace_)
               : race_.winner_among(temperature, workspace_.candidates.first(candidates));
}

DecisionError Decider::draw_survivor(Survivors survivors) {
    chain_.apply(survivors, pruning_.adjustments, applied_);
    return draw_left(survivors);
}

DecisionError Decider::draw_left(Survivors& survivors) {
    if (survivors.classes().empty()) return DecisionError::no_token_left;
    if (request::replaces_draw(params_)) survivors.weigh(1.0 / chain_.temperature());
    const double temperature = chain_.temperature();
    if (has_mirostat(params_)) keep_by_mirostat(params_, request_, survivors, workspace_.vocab);
    const std::uint32_t tokens = survivors.flatten();
    if (tokens == 0) return DecisionError::no_token_left;
    if (has_mirostat(params_)) {
        drawn_ = draw_mirostat(survivors, tokens, temperature);
    } else if (has_adaptive_p(params_)) {
        drawn_ = draw_adaptive(survivors, tokens);
    } else {
        const auto proposed = proposes(params_) ? propose(1.0 / temperature) : std::nullopt;
        drawn_ = proposed ? *proposed : winner_listed(tokens, temperature);
    }
    if (wants_distribution()) note_listed(tokens, has_adaptive_p(params_) ? 1.0 : 1.0 / temperature);
    return DecisionError::none;
}

AdaptiveLogit Decider::adaptive_logit_of(Survivors& survivors) const {
    return {survivors.weigher(), static_cast<double>(survivors.total()),
            adaptive_aim(params_, request_.feedback)};
}

// Adaptive-p replaces the distribution by one of the distance to the probability that it aims at.
Candidate Decider::draw_adaptive(Survivors& survivors, std::uint32_t tokens) {
    const AdaptiveLogit logit = adaptive_logit_of(survivors);
    const auto all = workspace_.candidates.first(tokens);
    const auto own = workspace_.sort_buffer.first(tokens);
    std::copy(all.begin(), all.end(), own.begin());
    replace_logits(all, logit);
    const Candidate drawn = race_.winner_among(1.0, all);
    const auto place = std::find_if(own.begin(), own.end(),
                                    [&](const Candidate& each) { return each.token == drawn.token; });
    workspace_.answer_space.feedback =
        adaptive_feedback(params_, request_.feedback, logit.probability(place->value));
    return drawn;
}

DecisionError Decider::from_classes() {
    RowClasses classes(row_, adjust_, pruning_.adjustments, request_, workspace_);
    Survivors survivors = classes.list();
    if (row_.lacks_blocks()) return DecisionError::none;
    if (survivors.classes().empty()) return DecisionError::no_token_left;
    const bool races_late = plan_.adjusts_last && !plan_.answers_left;
    chain_.apply(survivors, races_late ? all_adjustments(params_) : pruning_.adjustments, proto::Step::end);
    if (survivors.classes().empty()) return DecisionError::no_token_left;
    if (races_late) return drawn(late_winner(classes, survivors));
    if (!survivors.is_of_row() || (survivors.are_few() && !is_greedy(params_))) return draw_left(survivors);
    if (request::replaces_draw(params_)) survivors.weigh(1.0 / chain_.temperature());
    if (has_mirostat(params_)) keep_by_mirostat(params_, request_, survivors, workspace_.vocab);
    const DecisionError fault = drawn(winner_of_classes(classes, survivors));
    if (fault != DecisionError::none || !wants_distribution()) return fault;
    if (has_adaptive_p(params_)) {
        note_adaptive(classes, survivors);
    } else {
        note_classes(classes, survivors, is_greedy(params_) ? 1.0 : 1.0 / chain_.temperature());
    }
    if (is_greedy(params_)) answer_alone();
    return DecisionError::none;
}

// What stands behind all filters changes what is drawn, but not what it is drawn from.
std::optional<Candidate> Decider::late_winner(RowClasses& classes, const Survivors& survivors) {
    const auto proposed = proposes(params_) ? propose(1.0 / chain_.temperature()) : std::nullopt;
    if (proposed) return proposed;
    const Adjustments all = all_adjustments(params_);
    if (!survivors.is_of_row()) {
        const std::uint32_t tokens = survivors.flatten();
        if (tokens == 0) return std::nullopt;
        for (Candidate& each : workspace_.candidates.first(tokens))
            each.value = adjust_(each.token, row_.value_at(each.token), all);
        return winner_listed(tokens, chain_.temperature());
    }
    const bool lowers = adjust_.lowers_only(all) && !adjust_.has_raising_bias();
    const BoundedValues bounds = lowers ? bounds_of(survivors) : kAllValues;
    return winner(chain_.temperature(), bounds,
                  [&](const Candidate& candidate) { return classes.holds(survivors, candidate.token); });
}

std::optional<Candidate> Decider::winner_of_classes(RowClasses& classes, Survivors& survivors) {
    if (is_greedy(params_)) return first_maximum();
    if (has_adaptive_p(params_)) return adaptive_winner(classes, survivors);
    const BoundedValues values = bounds_of(survivors);
    const auto is_left = [&](const Candidate& candidate) { return classes.holds(survivors, candidate); };
    const double temperature = chain_.temperature();
    const bool may_propose = proposes(params_) && !has_mirostat(params_);
    const auto proposed = may_propose ? propose(1.0 / temperature) : std::nullopt;
    if (proposed) return proposed;
    if (!has_mirostat(params_)) return winner(temperature, values, is_left);
    const auto drawn_token = race_.winner(temperature, values, is_left);
    if (drawn_token) {
        const Mass own = survivors.weigher().mass(drawn_token->value);
        workspace_.answer_space.feedback = after_mirostat(params_, request_, own, survivors.total());
    }
    return drawn_token;
}

std::optional<Candidate> Decider::first_maximum() {
    Pruning best = pruning_;
    best.top_k = 1;
    const std::uint32_t candidates = search_.search(best).count;
    return candidates > 0 ? std::optional(first_of(workspace_.candidates.first(candidates))) : std::nullopt;
}

// As draw_adaptive(), of all tokens. Up to the aim a larger probability replaces a logit by a larger one: a
// block's maximum bounds what replaces its tokens.
std::optional<Candidate> Decider::adaptive_winner(RowClasses& classes, Survivors& survivors) {
    const AdaptiveLogit logit = adaptive_logit_of(survivors);
    const auto most = workspace_.replaced_max.first(row_.blocks);
    bound_adaptive(workspace_.block_max.first(row_.blocks), logit, most);
    const auto drawn = race_.winner_replaced(
        most, [&](const Candidate& candidate) { return classes.holds(survivors, candidate); }, logit);
    if (drawn) {
        workspace_.answer_space.feedback =
            adaptive_feedback(params_, request_.feedback, logit.probability(drawn->value));
    }
    return drawn;
}

// How many of `tokens` are answered: the likeliest ones.
std::uint32_t Decider::answered_of(std::uint32_t tokens) const {
    std::size_t answered = wants_processed() ? params_.logprobs : 0;
    if (wants_shares()) answered = std::max(answered, support_room(params_, request_, tokens));
    return static_cast<std::uint32_t>(std::min<std::size_t>(answered, tokens));
}

std::uint32_t Decider::rank_among(Survivors& survivors) const {
    if (!wants_processed()) return 0;
    survivors.split_at(drawn_.value);
    const bool ties = request::counts_ties(params_);
    return survivors.count_above(drawn_.value, ties) + (ties ? 0 : 1);
}

// Notes the distribution of listed tokens, all of them.
void Decider::note_listed(std::uint32_t candidates, double scale) {
    const std::uint32_t answered = answered_of(candidates);
    Survivors survivors(workspace_, candidates, std::max(answered, 1U));
    survivors.weigh(scale);
    note_distribution({survivors.weigher(), survivors.total(), candidates}, rank_among(survivors),
                      workspace_.candidates.first(answered));
}

// Notes the distribution of classes; only members that are answered are looked for.
void Decider::note_classes(RowClasses& classes, Survivors survivors, double scale) {
    survivors.weigh(scale);
    const std::uint32_t rank = rank_among(survivors);
    const Distribution distribution{survivors.weigher(), survivors.total(), survivors.tokens()};
    note_distribution(distribution, rank, first_left(classes, survivors, answered_of(distribution.tokens)));
}

// The same where adaptive-p replaced the logits.
void Decider::note_adaptive(RowClasses& classes, Survivors& survivors) {
    const AdaptiveLogit logit = adaptive_logit_of(survivors);
    AdaptiveClasses replaced(classes, survivors, logit, workspace_);
    drawn_.value = logit(drawn_.value);
    const bool ties = request::counts_ties(params_);
    const std::uint32_t rank =
        wants_processed() ? replaced.count_above(drawn_.value, ties) + (ties ? 0 : 1) : 0;
    const std::uint32_t tokens = survivors.tokens();
    const std::uint32_t answered = answered_of(tokens);
    const auto first = replaced.first(std::max(answered, 1U));
    if (first.empty()) return;
    const double largest = first.front().value;
    note_distribution({{largest, 1.0}, replaced.total(largest), tokens}, rank,
                      first.first(std::min<std::size_t>(answered, first.size())));
}

// The first of those that are left, in canonical order.
std::span<const Candidate> Decider::first_left(RowClasses& classes, const Survivors& survivors,
                                               std::uint32_t wanted) {
    if (wanted == 0) return {};
    const auto kept = survivors.classes();
    std::size_t some = 0;
    for (std::uint32_t tokens = 0; some < kept.size() && tokens < wanted; ++some) tokens += kept[some].size;
    const std::uint32_t found = classes.list_left(survivors, 0, some);
    const std::uint32_t first = std::min(wanted, found);
    if (first > 0) sort_best(workspace_, found, first);
    return workspace_.candidates.first(first);
}

void Decider::note_distribution(const Distribution& distribution, std::uint32_t rank,
                                std::span<const Candidate> first) {
    if (wants_shares()) answer_support(distribution, first);
    if (wants_processed())
        processed_logprob_ = processed_logprobs(params_, drawn_, rank, distribution, first, workspace_);
}

void Decider::answer_support(const Distribution& distribution, std::span<const Candidate> first) {
    const auto total = static_cast<double>(distribution.total);
    const std::size_t room = std::min(support_room(params_, request_, distribution.tokens), first.size());
    // Of values that stand behind each other, each is weighed once, many at a time.
    std::array<EqualClass, 64> some;
    for (std::size_t begin = 0; begin < room;) {
        std::size_t values = 0;
        for (std::size_t i = begin; i < room; ++i) {
            const bool again = values > 0 && first[i].value == some[values - 1].value;
            if (!again && values == some.size()) break;
            if (!again) some[values++] = class_of(first[i].value, static_cast<std::uint32_t>(i), 0, 0);
            ++some[values - 1].size;
        }
        weigh_values(std::span(some).first(values), distribution.weigher);
        for (const EqualClass& each : std::span(some).first(values)) {
            const double probability = static_cast<double>(each.mass) / total;
            for (begin = each.begin; begin < each.begin + each.size; ++begin)
                workspace_.support[begin] = {static_cast<std::int32_t>(first[begin].token), 0, probability};
        }
    }
    workspace_.answer_space.support = workspace_.support.first(room);
    workspace_.answer_space.support_total = distribution.tokens;
}

}  // namespace croupier::sampler

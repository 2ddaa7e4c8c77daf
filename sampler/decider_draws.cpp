// Draws from tokens that were listed or counted by value, and what is answered beside them.
#include <algorithm>
#include <array>
#include <cstddef>

#include "sampler/canonical_order.h"
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

Mass mass_of_nth(const Survivors& survivors, std::size_t n) {
    for (const EqualClass& each : survivors.classes()) {
        if (n < each.size) return each.mass;
        n -= each.size;
    }
    return 0;
}

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
    drawn_ = draw_mirostat(*survivors, draw_temperature(params_));
    return DecisionError::none;
}

// The same for what a top-p keeps.
DecisionError Decider::from_nucleus() {
    const auto kept = NucleusSearch(params_, row_, adjust_, search_, pruning_, workspace_).kept();
    if (!kept) return answer_without_cut();
    draw_survivor(*kept);
    return DecisionError::none;
}

Candidate Decider::draw_mirostat(Survivors& survivors, double temperature) {
    const Mass total = survivors.total();
    const Weigher weigher = survivors.weigher();
    const std::uint32_t tokens = survivors.flatten();
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
    if (perturbs_logits(params_)) {
        drawn_ = draw_perturbed(params_, request_, candidates, temperature, workspace_);
    } else {
        const auto proposed = proposes(params_) ? propose(scale()) : std::nullopt;
        drawn_ =
            proposed ? *proposed : race_.winner_among(temperature, workspace_.candidates.first(candidates));
    }
    if (wants_distribution()) note_listed(candidates, 1.0 / temperature);
}

void Decider::draw_survivor(Survivors survivors) {
    chain_.apply(survivors, pruning_.adjustments, applied_);
    draw_left(survivors);
}

void Decider::draw_left(Survivors& survivors) {
    if (request::replaces_draw(params_)) survivors.weigh(1.0 / chain_.temperature());
    const double temperature = chain_.temperature();
    if (has_mirostat(params_)) {
        keep_by_mirostat(params_, request_, survivors, workspace_.vocab);
        drawn_ = draw_mirostat(survivors, temperature);
    } else if (has_adaptive_p(params_)) {
        drawn_ = draw_adaptive(survivors, survivors.flatten());
    } else if (perturbs_logits(params_)) {
        drawn_ = draw_perturbed(params_, request_, survivors.flatten(), temperature, workspace_);
    } else {
        const std::uint32_t tokens = survivors.flatten();
        const auto proposed = proposes(params_) ? propose(1.0 / temperature) : std::nullopt;
        drawn_ = proposed ? *proposed : race_.winner_among(temperature, workspace_.candidates.first(tokens));
    }
    if (wants_distribution())
        note_listed(survivors.tokens(), has_adaptive_p(params_) ? 1.0 : 1.0 / temperature);
}

// Adaptive-p replaces the distribution by one of the distance to the probability that it aims at.
Candidate Decider::draw_adaptive(Survivors& survivors, std::uint32_t tokens) {
    const auto total = static_cast<double>(survivors.total());
    const double aim = adaptive_aim(params_, request_.feedback);
    const auto all = workspace_.candidates.first(tokens);
    for (Candidate& each : all) {
        const auto mass = static_cast<double>(survivors.weigher().mass(each.value));
        each.value = adaptive_logit(mass / total, aim);
    }
    const Candidate drawn = race_.winner_among(1.0, all);
    const auto place = std::find_if(all.begin(), all.end(),
                                    [&](const Candidate& each) { return each.token == drawn.token; });
    const auto own =
        static_cast<double>(mass_of_nth(survivors, static_cast<std::size_t>(place - all.begin())));
    workspace_.answer_space.feedback = adaptive_feedback(params_, request_.feedback, own / total);
    return drawn;
}

DecisionError Decider::from_classes() {
    RowClasses classes(row_, adjust_, pruning_.adjustments, request_, workspace_);
    Survivors survivors = classes.list();
    if (row_.lacks_blocks()) return DecisionError::none;
    if (survivors.classes().empty()) return DecisionError::no_token_left;
    const bool races_late = plan_.adjusts_last && !plan_.answers_left;
    chain_.apply(survivors, races_late ? all_adjustments(params_) : pruning_.adjustments, proto::Step::end);
    if (survivors.is_open()) return answer_by_candidates();
    if (races_late) return drawn(late_winner(classes, survivors));
    if (!survivors.is_of_row()) {
        draw_left(survivors);
        return DecisionError::none;
    }
    if (request::replaces_draw(params_)) survivors.weigh(1.0 / chain_.temperature());
    if (has_mirostat(params_)) keep_by_mirostat(params_, request_, survivors, workspace_.vocab);
    if (survivors.is_open()) return answer_by_candidates();
    const DecisionError fault = drawn(winner_of_classes(classes, survivors));
    if (fault != DecisionError::none || !wants_distribution()) return fault;
    // Adaptive-p's distribution is never computed by classes.
    note_classes(classes, survivors, is_greedy(params_) ? 1.0 : 1.0 / chain_.temperature());
    if (is_greedy(params_)) answer_alone();
    return DecisionError::none;
}

// What stands behind all filters changes what is drawn, but not what it is drawn from.
std::optional<Candidate> Decider::late_winner(RowClasses& classes, const Survivors& survivors) {
    const Adjustments all = all_adjustments(params_);
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
    const Weigher weigher = survivors.weigher();
    const auto total = static_cast<double>(survivors.total());
    const double aim = adaptive_aim(params_, request_.feedback);
    const auto probability = [&](double value) { return static_cast<double>(weigher.mass(value)) / total; };
    const auto most = workspace_.replaced_max.first(row_.blocks);
    bound_adaptive(workspace_.block_max.first(row_.blocks), weigher, total, aim, most);
    const auto drawn = race_.winner_replaced(
        most, [&](const Candidate& candidate) { return classes.holds(survivors, candidate); },
        [&](double value) { return adaptive_logit(probability(value), aim); });
    if (drawn) {
        workspace_.answer_space.feedback =
            adaptive_feedback(params_, request_.feedback, probability(drawn->value));
    }
    return drawn;
}

// How many of `tokens` are answered: the likeliest ones.
std::uint32_t Decider::answered_of(std::uint32_t tokens) const {
    std::size_t answered = wants_processed() ? params_.logprobs : 0;
    if (wants_shares()) answered = std::max(answered, support_room(params_, request_, tokens));
    return static_cast<std::uint32_t>(std::min<std::size_t>(answered, tokens));
}

// Notes the distribution of listed tokens, all of them.
void Decider::note_listed(std::uint32_t candidates, double scale) {
    const std::uint32_t answered = answered_of(candidates);
    Survivors survivors(workspace_, candidates, std::max(answered, 1U));
    survivors.weigh(scale);
    note_distribution(survivors, workspace_.candidates.first(answered));
}

// Notes the distribution of classes; only members that are answered are looked for.
void Decider::note_classes(RowClasses& classes, Survivors survivors, double scale) {
    survivors.weigh(scale);
    if (wants_processed()) survivors.split_at(drawn_.value);
    note_distribution(survivors, first_left(classes, survivors, answered_of(survivors.tokens())));
}

// The first of those that are left, in canonical order.
std::span<const Candidate> Decider::first_left(RowClasses& classes, const Survivors& survivors,
                                               std::uint32_t wanted) {
    if (wanted == 0) return {};
    double least = survivors.classes().back().least;
    std::uint32_t above = 0;
    for (const EqualClass& each : survivors.classes()) {
        above += each.size;
        if (above < wanted) continue;
        least = each.least;
        break;
    }
    const std::uint32_t found = search_.at_least(float_below(least), pruning_.adjustments).count;
    const auto all = workspace_.candidates.first(found);
    const auto end =
        std::remove_if(all.begin(), all.end(), [&](const Candidate& each) { return each.value < least; });
    const auto reaching = static_cast<std::uint32_t>(end - all.begin());
    sort_canonically(workspace_, reaching);
    // Both lists descend, so that no class is searched for. Of a class that was cut only some members are
    // left.
    const auto kept = survivors.classes();
    auto of = kept.begin();
    std::uint32_t left = 0;
    for (const Candidate each : all.first(reaching)) {
        while (of != kept.end() && of->least > each.value) ++of;
        if (of == kept.end() || of->value < each.value) continue;
        if (of->size == of->whole || classes.holds(survivors, each)) all[left++] = each;
        if (left == wanted) break;
    }
    return all.first(left);
}

void Decider::note_distribution(Survivors& survivors, std::span<const Candidate> first) {
    if (wants_shares()) answer_support(survivors, first);
    if (wants_processed())
        processed_logprob_ = processed_logprobs(params_, drawn_, survivors, first, workspace_);
}

void Decider::answer_support(Survivors& survivors, std::span<const Candidate> first) {
    const auto total = static_cast<double>(survivors.total());
    const std::uint32_t all = survivors.tokens();
    const std::size_t room = std::min(support_room(params_, request_, all), first.size());
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
        weigh_values(std::span(some).first(values), survivors.weigher());
        for (const EqualClass& each : std::span(some).first(values)) {
            const double probability = static_cast<double>(each.mass) / total;
            for (begin = each.begin; begin < each.begin + each.size; ++begin)
                workspace_.support[begin] = {static_cast<std::int32_t>(first[begin].token), 0, probability};
        }
    }
    workspace_.answer_space.support = workspace_.support.first(room);
    workspace_.answer_space.support_total = all;
}

}  // namespace croupier::sampler

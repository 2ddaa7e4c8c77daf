// Decisions at a temperature that follows from the entropy of all tokens. It is known to lie in an interval:
// what is decided alike at all temperatures in it is decided, and the rest is left open.
#include <algorithm>

#include "sampler/decider.h"

namespace croupier::sampler {

using proto::DecisionError;
using proto::Step;

// Nothing if too little is known.
std::optional<TemperatureInterval> Decider::temperature_by_entropy() {
    if (tempered_) return tempered_;
    WinnerQuestion row(Step::temperature, params_, row_, adjust_, search_, pruning_, workspace_);
    if (row.begin()) tempered_ = dynamic_temperature_interval(params_, row);
    return tempered_;
}

// The winner where it is clear at one temperature. What a min-p keeps at the highest runs, and the winner has
// to be kept at the lowest too.
std::optional<Candidate> Decider::clear_winner(const TemperatureInterval& tempered) {
    if (plan_.asked != Step::min_p)
        return race_.clear_winner(tempered.middle(), tempered.margin, kAllValues, runs_anywhere);
    Pruning at_high = pruning_;
    at_high.scale = 1.0 / tempered.high;
    Pruning at_low = pruning_;
    at_low.scale = 1.0 / tempered.low;
    WinnerQuestion some(Step::min_p, params_, row_, adjust_, search_, at_high, workspace_);
    WinnerQuestion all(Step::min_p, params_, row_, adjust_, search_, at_low, workspace_);
    if (!some.begin() || !all.begin()) return std::nullopt;
    const auto clear =
        race_.clear_winner(tempered.middle(), tempered.margin, some.values(),
                           [&](const Candidate& candidate) { return some.may_be_kept(candidate); });
    return clear && all.may_be_kept(*clear) ? clear : std::nullopt;
}

DecisionError Decider::race_by_entropy() {
    const auto tempered = temperature_by_entropy();
    const auto clear = tempered ? clear_winner(*tempered) : std::nullopt;
    return clear ? drawn(clear) : answer_exactly();
}

// How many of the candidates the filters keep, which are then the first ones.
std::optional<std::uint32_t> Decider::kept_at_all(const TemperatureInterval& tempered,
                                                  std::uint32_t candidates) {
    const Step only = request::only_filter(params_);
    if (only == Step::top_k) return candidates;
    if (only == Step::min_p) {
        const auto all = workspace_.candidates.first(candidates);
        const auto best = std::max_element(
            all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.value < b.value; });
        const ValueRange least =
            min_p_range(params_.min_p, 1.0 / tempered.high, 1.0 / tempered.low, best->value);
        return keep_from({least.low, std::min(least.high, best->value)}, candidates);
    }
    // The plan has made sure that the others keep the best tokens, and more of them the higher the
    // temperature is: what they keep at both ends they keep at all between.
    Survivors at_low(workspace_, candidates);
    chain_.apply(at_low, pruning_.adjustments, applied_, tempered.low);
    const std::uint32_t kept = at_low.tokens();
    Survivors at_high(workspace_, candidates);
    chain_.apply(at_high, pruning_.adjustments, applied_, tempered.high);
    return at_high.tokens() == kept ? std::optional(at_high.flatten()) : std::nullopt;
}

// The first filters keep the best tokens, whatever the temperature is. Between two temperatures a token's
// lead over another one changes with the inverse temperature, evenly: it leads at all of them if it does at
// both.
DecisionError Decider::from_tempered() {
    const auto tempered = temperature_by_entropy();
    if (row_.lacks_blocks()) return DecisionError::none;
    if (!tempered) return answer_without_cut();
    Pruning at_high = pruning_;
    at_high.scale = 1.0 / tempered->high;
    const Gathered found = search_.search(at_high);
    if (row_.lacks_blocks()) return DecisionError::none;
    if (found.gave_up) return answer_many();
    if (found.count == 0) return DecisionError::no_token_left;
    const auto left = kept_at_all(*tempered, found.count);
    if (!left) return answer_without_cut();
    const auto all = workspace_.candidates.first(*left);
    const auto at_one = race_.clear_winner_among(tempered->low, tempered->rounding, all);
    const auto at_other = race_.clear_winner_among(tempered->high, tempered->rounding, all);
    const bool is_clear = at_one && at_other && at_one->token == at_other->token;
    return is_clear ? drawn(at_one) : answer_without_cut();
}

}  // namespace croupier::sampler

// The steps of docs/semantics.md that change or ban a logit, mask to DRY, for one token at a time: a decision
// adjusts only the tokens that it looks at.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "proto/sampling.h"
#include "sampler/bias_table.h"
#include "sampler/request.h"
#include "sampler/sequence_state.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

// Which steps after the mask are part of the adjustment.
struct Adjustments {
    bool rules = false;  // lists of ids, min_tokens, biases
    bool penalties = false;
    bool dry = false;
    bool dry_first = false;  // before the penalties
};

// Adds a step that comes behind all of them.
inline void note(Adjustments& adjustments, proto::Step step) {
    if (step == proto::Step::dry) adjustments.dry_first = !adjustments.penalties;
    (step == proto::Step::dry ? adjustments.dry : adjustments.penalties) = true;
}

class Adjuster {
  public:
    // Every id of the request's lists must be inside the vocabulary.
    Adjuster(const proto::SamplingParams& params, const Request& request, SequenceState& state,
             Workspace& workspace);
    ~Adjuster();
    Adjuster(const Adjuster&) = delete;
    Adjuster& operator=(const Adjuster&) = delete;

    // No token ends above where it stood, except those with a positive bias.
    bool lowers_only(Adjustments on) const;
    bool changes_nothing(Adjustments on) const;
    bool has_raising_bias() const;
    // Whether one of its biases is positive, so that all of them together may raise it.
    bool may_lift(std::uint32_t token) const {
        return !masked(token) && !banned(token) && bias_.has_positive(token);
    }

    // Calls visit(token) for each token that has a rule of its own; one may come more than once. Allowed ids
    // are not among them: where there are some, only they are looked at.
    template <typename Visit>
    void visit_special(Visit visit) const;
    bool has_special() const { return has_special_; }
    bool is_special(std::uint32_t token) const { return (special_[token / 64] >> (token % 64) & 1U) != 0; }

    // For a token that has no rule of its own, from what is already known about it.
    double penalised_alone(const TokenCounts::Counted& counted, float value) const {
        if (masked(counted.token)) return -std::numeric_limits<double>::infinity();
        return penalised_as(SequenceState::standing_of(counted.standing), static_cast<double>(value));
    }

    void prefetch(std::uint32_t token) const {
        if (has_penalties_) state_.prefetch(token);
    }

    bool penalises(Adjustments on) const { return on.penalties && has_penalties_; }
    SequenceState& state() const { return state_; }
    std::span<const std::uint32_t> mask() const { return mask_; }

    bool masked(std::uint32_t token) const {
        return !mask_.empty() && (mask_[token / 32] >> (token % 32) & 1U) == 0;
    }
    double ruled(std::uint32_t token, double value) const {  // bans and biases
        return has_special_ && is_special(token) ? by_rules(token, value) : value;
    }
    double penalised(std::uint32_t token, double value) const;
    double repeated(std::uint32_t token, double value) const {  // DRY
        return !repeats_.empty() && is_special(token) ? by_repeat(token, value) : value;
    }
    double operator()(std::uint32_t token, float value, Adjustments on) const;

  private:
    double penalised_as(const SequenceState::Standing& standing, double value) const;
    void ban();
    void ban(std::uint32_t token) { banned_[token / 64] |= std::uint64_t{1} << (token % 64); }
    bool banned(std::uint32_t token) const { return (banned_[token / 64] >> (token % 64) & 1U) != 0; }
    double by_rules(std::uint32_t token, double value) const;
    double by_repeat(std::uint32_t token, double value) const;

    const proto::SamplingParams& params_;
    const Request& request_;
    SequenceState& state_;
    std::span<const std::uint32_t> mask_;
    std::span<std::uint64_t> special_;
    std::span<std::uint64_t> banned_;
    BiasTable bias_;
    std::span<const SequenceState::Repeat> repeats_;
    bool bans_stops_;
    bool has_penalties_;
    bool has_special_;
    std::array<double, 2> repetition_;  // where it does not apply, and where it does
    std::array<double, 2> presence_;
};

// Whether the token was seen is unpredictable, so there is no branch on it: a penalty that does not apply
// divides or multiplies by one, or subtracts zero.
inline double Adjuster::penalised_as(const SequenceState::Standing& standing, double value) const {
    const auto [seen, occurrences] = standing;
    const bool positive = value > 0.0;
    // A short-circuit would be a branch.
    const auto divided = static_cast<std::size_t>(seen & positive);
    const auto multiplied = static_cast<std::size_t>(seen & !positive);
    value = value / repetition_[divided] * repetition_[multiplied];
    value -= params_.frequency_penalty * static_cast<double>(occurrences);
    return value - presence_[occurrences > 0 ? 1 : 0];
}

inline double Adjuster::penalised(std::uint32_t token, double value) const {
    return has_penalties_ ? penalised_as(state_.standing(token), value) : value;
}

inline double Adjuster::operator()(std::uint32_t token, float value, Adjustments on) const {
    if (masked(token)) return -std::numeric_limits<double>::infinity();
    auto adjusted = static_cast<double>(value);
    if (on.rules) adjusted = ruled(token, adjusted);
    if (on.dry && on.dry_first) adjusted = repeated(token, adjusted);
    if (on.penalties) adjusted = penalised(token, adjusted);
    if (on.dry && !on.dry_first) adjusted = repeated(token, adjusted);
    return adjusted;
}

// Calls `word` with each list of `lists`, which must be well formed.
template <typename Visit>
void for_each_list(TokenLists lists, Visit visit) {
    while (!lists.empty()) {
        const auto length = static_cast<std::size_t>(lists.front());
        visit(lists.subspan(1, length));
        lists = lists.subspan(1 + length);
    }
}

template <typename Visit>
void Adjuster::visit_special(Visit visit) const {
    if (!has_special_) return;
    const auto visit_all = [&](std::span<const std::int32_t> tokens) {
        for (const std::int32_t token : tokens) visit(static_cast<std::uint32_t>(token));
    };
    for (const proto::TokenBias& each : request_.bias) visit(static_cast<std::uint32_t>(each.token));
    for (const SequenceState::Repeat& repeat : repeats_) visit(repeat.token);
    for_each_list(request_.bad_words, [&](std::span<const std::int32_t> word) {
        visit(static_cast<std::uint32_t>(word.back()));
    });
    if (!bans_stops_) return;
    if (params_.eos_token_id >= 0) visit(static_cast<std::uint32_t>(params_.eos_token_id));
    visit_all(request_.stop_ids);
}

}  // namespace croupier::sampler

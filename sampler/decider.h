// Decides one request by its plan: take() has every path and fallback.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "proto/decision.h"
#include "proto/sampling.h"
#include "sampler/adjuster.h"
#include "sampler/blocked_row.h"
#include "sampler/candidates.h"
#include "sampler/chain.h"
#include "sampler/dynamic_temperature.h"
#include "sampler/formulas.h"
#include "sampler/hash_race.h"
#include "sampler/lean_draw.h"
#include "sampler/lean_row.h"
#include "sampler/logprobs.h"
#include "sampler/params.h"
#include "sampler/plan.h"
#include "sampler/race.h"
#include "sampler/race_key.h"
#include "sampler/row_classes.h"
#include "sampler/row_scan.h"
#include "sampler/survivors.h"
#include "sampler/winner_question.h"

namespace croupier::sampler {

class Decider {
  public:
    Decider(const RowView& view, const proto::SamplingParams& params, const Request& request,
            const request::Plan& plan, SequenceState& state, Workspace& workspace)
        : params_(params),
          request_(request),
          workspace_(workspace),
          plan_(plan),
          pruning_(pruning_of(params, plan)),
          applied_(plan.applied),
          row_(lay_in_blocks(view, workspace)),
          adjust_(params, request, state, workspace),
          race_(row_, adjust_, all_adjustments(params), race_key(params, request), request.prepared,
                race_as_it_stands(view, plan, request), workspace),
          hash_race_(row_, adjust_, all_adjustments(params), params, request, workspace),
          search_(row_, adjust_, request, workspace),
          chain_(params, request, adjust_, workspace) {
        if (row_.lean != nullptr) take_named(view, request, row_, sums_logprob());
    }

    proto::DecisionError scan();
    proto::DecisionError choose();
    std::int32_t token() const { return static_cast<std::int32_t>(drawn_.token); }
    float logprob();
    void note_blocks_read() const;
    // Whether the decision asked for blocks that are not there, which makes it void.
    bool lacks_blocks() const { return row_.lacks_blocks(); }

  private:
    static constexpr float kNoLogprob = std::numeric_limits<float>::quiet_NaN();

    RowFault scan_row() const;
    RowFault scan_unmasked() const;
    proto::DecisionError take(DecisionPath path);
    proto::DecisionError from_candidates();
    std::optional<WinnerQuestion::Interval> kept_by_sigma();
    std::optional<std::uint32_t> keep_from(const WinnerQuestion::Interval& from, std::uint32_t candidates);
    bool reach_many(double least) const;
    void forget_cut();
    proto::DecisionError answer_without_cut();
    proto::DecisionError answer_many();
    proto::DecisionError from_classes();
    proto::DecisionError race_all();
    proto::DecisionError ask_winners();
    std::optional<TemperatureInterval> temperature_by_entropy();
    std::optional<std::uint32_t> kept_at_all(const TemperatureInterval& tempered, std::uint32_t candidates);
    proto::DecisionError from_tempered();
    std::optional<Candidate> clear_winner(const TemperatureInterval& tempered);
    proto::DecisionError race_by_entropy();
    proto::DecisionError from_mirostat();
    proto::DecisionError from_nucleus();
    Candidate draw_mirostat(Survivors& survivors, std::uint32_t tokens, double temperature);
    template <class Eligible>
    std::optional<Candidate> winner(double temperature, const BoundedValues& values, Eligible eligible);
    std::optional<Candidate> winner_of_classes(RowClasses& classes, Survivors& survivors);
    std::optional<Candidate> adaptive_winner(RowClasses& classes, Survivors& survivors);
    proto::DecisionError answer_exactly();
    proto::DecisionError propose_or_race();
    std::optional<Candidate> propose(double scale);
    void take_first_maximum(std::uint32_t candidates);
    void draw_untruncated(std::uint32_t candidates);
    proto::DecisionError draw_survivor(Survivors survivors);
    proto::DecisionError draw_left(Survivors& survivors);
    std::optional<Candidate> late_winner(RowClasses& classes, const Survivors& survivors);
    Candidate draw_adaptive(Survivors& survivors, std::uint32_t tokens);
    std::optional<Candidate> first_maximum();
    Candidate winner_listed(std::uint32_t candidates, double temperature);
    void answer_alone();
    std::uint32_t answered_of(std::uint32_t tokens) const;
    void note_listed(std::uint32_t candidates, double scale);
    void note_classes(RowClasses& classes, Survivors survivors, double scale);
    void note_adaptive(RowClasses& classes, Survivors& survivors);
    std::span<const Candidate> first_left(RowClasses& classes, const Survivors& survivors,
                                          std::uint32_t wanted);
    std::uint32_t rank_among(Survivors& survivors) const;
    void note_distribution(const Distribution& distribution, std::uint32_t rank,
                           std::span<const Candidate> first);
    void answer_support(const Distribution& distribution, std::span<const Candidate> first);
    AdaptiveLogit adaptive_logit_of(Survivors& survivors) const;
    double scale() const { return pruning_.scale; }
    // Whether the row's maxima are looked at as the mask leaves them. Proposals are made from the row as it
    // stands, and of ids that are allowed alone only a log-prob looks at others.
    bool races_masked() const {
        const bool looks = plan_.path != DecisionPath::listed || sums_logprob();
        return !request_.mask.empty() && looks && !proposes(params_);
    }
    bool wants_distribution() const { return plan_.answers_left; }
    // The shares of a support; a greedy draw's support is one token.
    bool wants_shares() const { return wants_support(params_, request_) && !is_greedy(params_); }
    // The log-prob in the distribution of the tokens that are left, listed or counted by value.
    bool wants_processed() const { return request::wants_processed(params_) && !plan_.sums_processed; }
    bool sums_logprob() const { return request::wants_logprob(params_) && !wants_processed(); }
    double logprob_scale() const { return plan_.sums_processed ? request::processed_scale(params_) : 1.0; }
    // The search prunes by everything that the request asks for: no filter, penalty or temperature comes
    // behind it.
    bool is_plain() const {
        return !is_truncated(params_) && !has_mirostat(params_) && !has_adaptive_p(params_) &&
               params_.dynatemp_range <= 0.0 && plan_.adjusts_first;
    }
    // The one filter is a top-k, which the search applies: the race among what it left needs no order of it.
    bool is_cut_by_top_k() const {
        return plan_.path == DecisionPath::head && pruning_.top_k > 0 && pruning_.min_p <= 0.0 &&
               applied_ == proto::Step::end && request::only_filter(params_) == proto::Step::top_k &&
               !request::replaces_draw(params_) && !perturbs_logits(params_) &&
               params_.dynatemp_range <= 0.0 && plan_.adjusts_first;
    }
    proto::DecisionError drawn(const std::optional<Candidate>& winner) {
        if (!winner) return proto::DecisionError::no_token_left;
        drawn_ = *winner;
        return proto::DecisionError::none;
    }

    const proto::SamplingParams& params_;
    const Request& request_;
    Workspace& workspace_;
    const request::Plan& plan_;
    Pruning pruning_;
    proto::Step applied_;  // as the plan has it, until the search is given up
    BlockedRow row_;
    Adjuster adjust_;
    Race race_;
    HashRace hash_race_;
    CandidateSearch search_;
    Chain chain_;
    std::optional<TemperatureInterval> tempered_;  // once it was told
    Candidate drawn_{};
    float processed_logprob_ = kNoLogprob;
};

// The winner among all tokens, by the request's rng.
template <class Eligible>
std::optional<Candidate> Decider::winner(double temperature, const BoundedValues& values, Eligible eligible) {
    return perturbs_logits(params_) ? hash_race_.winner(temperature, values, eligible)
                                    : race_.winner(temperature, values, eligible);
}

}  // namespace croupier::sampler

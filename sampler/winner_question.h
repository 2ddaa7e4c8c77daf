// Whether a request's one filter keeps the token that won the race among all tokens. Judged by bounds that
// read only what lies above the winner; a question that they cannot settle is left open. Also computes the
// entropy for the dynamic temperature.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>

#include "proto/sampling.h"
#include "sampler/adjuster.h"
#include "sampler/blocked_row.h"
#include "sampler/candidates.h"
#include "sampler/changed_weights.h"
#include "sampler/race_arrivals.h"
#include "sampler/row_mass.h"
#include "sampler/row_sums.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

// The error of a double's sum over a vocabulary, and of the masses' whole numbers, as a share of the total.
constexpr double kExactError = 1e-7;

enum class Verdict : std::uint8_t { kept, gone, open };

// Whether a question about the filter always needs the weight of the row.
constexpr bool asks_for_weight(proto::Step filter) {
    return filter == proto::Step::xtc;
}

class WinnerQuestion {
  public:
    // The bounds of a sum.
    struct Interval {
        double low;
        double high;
    };

    // `pruning`: what stands in the order before the filter.
    WinnerQuestion(proto::Step filter, const proto::SamplingParams& params, const BlockedRow& row,
                   const Adjuster& adjust, CandidateSearch& search, const Pruning& pruning,
                   Workspace& workspace);
    WinnerQuestion(const WinnerQuestion&) = delete;  // `changed_` looks at its row
    WinnerQuestion& operator=(const WinnerQuestion&) = delete;

    // Whether so little stands above the winner in the row that it is kept whatever the rest weighs. Needs no
    // begin(). Only for lean rows whose writers knew of the mask.
    bool may_keep_by_own_weight() const;
    bool keeps_by_own_weight(const Candidate& winner);

    // Computes what is known before any winner is asked about. Returns false if that is too little.
    bool begin();

    // Which tokens may still be kept. A token that is dropped takes others with it.
    const BoundedValues& values() const { return values_; }
    bool may_be_kept(const Candidate& candidate) const;

    Verdict ask(const Candidate& winner);

    // For a partial row: whether no absent token is kept, so that no winner needs to be looked for among
    // them. If so, values() excludes them from now on.
    bool exclude_absent();

    // Computes what all adjusted tokens weigh, in the units of weight(). Returns false if they weigh nothing.
    bool compute_total();
    Interval total() const;
    // begin() for callers that need a share of the total: if unread changed tokens leave the total too
    // uncertain, their blocks are asked for.
    bool begin_share();
    void ask_for_closer_total();
    double weight(double value) const;
    double value_of(double weight) const;
    double highest() const { return weighed_.reference; }  // as it was written

    // The highest value among the changed tokens, adjusted; 0 if there is none.
    double highest_changed() const { return std::isfinite(changed_.highest()) ? changed_.highest() : 0.0; }

    // For a top-n sigma: values below `low` are dropped, values from `high` on are kept.
    Interval kept_from() const { return {end_.value, keep_threshold_}; }

    // For the dynamic temperature: the entropy of all tokens, and how many they are.
    Interval entropy() const;
    double tokens() const { return tokens_; }

  private:
    // What the unadjusted row has above a candidate.
    struct RowAbove {
        Candidate whom;
        Interval sent;              // as it was summed where all of the row is
        std::optional<double> all;  // by that, or by blocks; nothing: not all of it is known

        bool is_sent() const { return sent.low == sent.high; }
    };

    double unread_part() const { return changed_.unread() / total().high; }
    // Asks for unread tokens until the rest may take away at most this part of the total.
    void ask_for_unread(double part) { changed_.ask_for_unread(part * total().high); }
    bool leaves_absent() const;
    bool begin_xtc();
    bool find_reaching();
    bool begin_sigma();
    bool begin_min_p();
    std::optional<double> find_maximum();
    void sum_row();
    bool compute_spread();
    bool total_is_given() const;
    Verdict ask_top_p(const Candidate& winner);
    Verdict ask_top_p_of_lean(const Candidate& winner);
    Verdict ask_with_all_above(const Candidate& winner, const RowAbove& above);
    const RowAbove& row_above(const Candidate& winner);
    Interval sent_above(const Candidate& winner) const;
    Interval known_above(const Candidate& winner) const;
    Interval before_with_unread(const Interval& row_has_above, const Candidate& winner) const;
    Verdict judge_top_p(const Interval& before, const Interval& all, const Candidate& winner);
    Verdict judge_top_p_exactly(const Candidate& winner);
    Verdict judge_by_what_is_left(const Candidate& winner);
    bool has_left_little(double share) const;
    Verdict ask_for_all();
    void ask_for_changed(const Interval& before);
    Verdict ask_typical(const Candidate& winner);
    bool ties_by_rounding(const Candidate& winner) const;
    MassQuery mass_of_row() const {
        return {weighed_.row, weighed_.mask, weighed_.reference, weighed_.scale};
    }
    Interval mass_before(const Candidate& place, double below) const;
    Interval with_change(double raw, const Candidate& place, double below) const;
    double weight_or_none(double value) const { return std::isinf(value) ? 0.0 : weight(value); }
    double exponent(double value) const { return (value - weighed_.reference) * weighed_.scale; }
    double value_at(double exponent) const { return weighed_.reference + exponent / weighed_.scale; }

    proto::Step filter_;
    const proto::SamplingParams& params_;
    CandidateSearch& search_;
    Adjustments on_;
    Workspace& workspace_;
    WeighedRow weighed_;
    ChangedWeights changed_;
    bool lowers_;  // no token ends above where it stood
    BoundedValues values_ = kAllValues;
    Candidate end_;                      // itself and what follows it in canonical order are gone
    Candidate first_;                    // what stands before it in canonical order is gone
    bool excludes_absent_ = false;       // what is absent is gone
    std::optional<RowAbove> row_above_;  // of the last one that was asked about
    double raw_total_ = 0.0;             // what the row weighs as it was written; 0: not known yet
    double raw_error_ = kWeightError;    // what that may be off, as a share of it
    double maximum_ = 0.0;               // min_p: of all tokens, as their adjustments leave them
    double keep_threshold_ = 0.0;        // top_n_sigma: kept from here on
    double tokens_ = 0.0;                // above -inf
    double centre_ = 0.0;  // the tokens' mean exponent, each by its weight: the nearest to the entropy
    double centre_error_ = 0.0;
    // typical_p: values as far from the centre as these, or farther, are dropped, except smaller ids at these
    // values.
    Candidate above_;
    Candidate below_;
};

}  // namespace croupier::sampler

// Whether a request's one filter keeps the token that won the race among all: by bounds, which read what
// lies above it and no more. What they cannot tell is left open. And the dynamic temperature's entropy.
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

// A double's sum of so many terms and the masses' whole numbers are off by less, as a share of the total.
constexpr double kExactError = 1e-7;

enum class Verdict : std::uint8_t { kept, gone, open };

// Of the filters that can be asked, the one that always needs the weight of the row.
constexpr bool asks_for_weight(proto::Step filter) {
    return filter == proto::Step::xtc;
}

class WinnerQuestion {
  public:
    // What a sum lies between.
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

    // Whether so little stands above the winner, as the row has it, that it is kept whatever the rest weighs.
    // It needs no begin(), and is for questions that may be answered so: of a lean step's rows whose writers
    // knew of a mask.
    bool may_keep_by_own_weight() const;
    bool keeps_by_own_weight(const Candidate& winner);

    // What is known of every token before one is asked; false: too little.
    bool begin();

    // Which tokens may still be kept. A token that is gone takes others with it.
    const BoundedValues& values() const { return values_; }
    bool may_be_kept(const Candidate& candidate) const;

    Verdict ask(const Candidate& winner);

    // Of a row that is there in part: whether nothing of what is absent is kept, so that no winner needs to
    // be looked for there. If so, values() says so from now on.
    bool exclude_absent();

    // What all tokens weigh, as their adjustments leave them, in units of which weight() tells a value's.
    // False: nothing.
    bool compute_total();
    Interval total() const;
    // The same for what is told by a share of it: where what was not read of the changed tokens leaves it too
    // wide, that is asked for.
    bool begin_share();
    void ask_for_closer_total();
    double weight(double value) const;
    double value_of(double weight) const;
    double highest() const { return weighed_.reference; }  // as it was written

    // Of those that the adjustments change, as they leave it; 0: of none.
    double highest_changed() const { return std::isfinite(changed_.highest()) ? changed_.highest() : 0.0; }

    // Of a top-n sigma: what is below the first is gone, what is not below the second is kept.
    Interval kept_from() const { return {end_.value, keep_threshold_}; }

    // Of a question about the dynamic temperature: the entropy of all tokens, and how many they are.
    Interval entropy() const;
    double tokens() const { return tokens_; }

  private:
    // What the row as it was written has above a candidate.
    struct RowAbove {
        Candidate whom;
        Interval sent;              // as it was summed where all of the row is
        std::optional<double> all;  // by that, or by blocks; nothing: not all of it is known

        bool is_sent() const { return sent.low == sent.high; }
    };

    double unread_part() const { return changed_.unread() / total().high; }
    // The next try reads what may take away more than this part of the total.
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
    // typical_p: gone is what lies as far above or below, but for smaller ids of these values.
    Candidate above_;
    Candidate below_;
};

}  // namespace croupier::sampler

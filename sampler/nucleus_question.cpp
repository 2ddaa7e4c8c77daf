// Whether a top-p keeps the race's winner: by its own weight, by what is there of a row, or by all of it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "sampler/canonical_order.h"
#include "sampler/float_bounds.h"
#include "sampler/row_mass.h"
#include "sampler/row_scan.h"
#include "sampler/winner_question.h"

namespace croupier::sampler {
namespace {

using proto::Step;

constexpr double kNothing = -std::numeric_limits<double>::infinity();
constexpr double kEverything = std::numeric_limits<double>::infinity();
constexpr std::uint32_t kAfterAll = std::numeric_limits<std::uint32_t>::max();

}  // namespace

// What a mask hides may stand so far above what it leaves that no sum holds both.
bool WinnerQuestion::may_keep_by_own_weight() const {
    return filter_ == Step::top_p && lowers_ && weighed_.row.lean != nullptr && weighed_.mask.empty() &&
           weighed_.reference != kNothing && can_be_weighed(weighed_.reference, weighed_.scale);
}

// The row weighs no less than what stands above the winner and the winner itself. What is lowered stood above
// it where it still does: the row as it was written has no less there.
bool WinnerQuestion::keeps_by_own_weight(const Candidate& winner) {
    const auto row_above = all_above(winner);
    if (!row_above) return false;
    const auto stood = static_cast<double>(weighed_.row.value_at(winner.token));
    const double self = stood > winner.value ? weight(stood) * (1.0 - kWeightError) : 0.0;
    const double above = std::max(0.0, *row_above * (1.0 + kWeightError) - self) + kExactError;
    const double share = params_.top_p - 2.0 * kExactError;
    return above * (1.0 - share) < share * weight(winner.value);
}

// Where the entries above all that are not there have the share already, none of the others is kept: no
// winner among them needs to be asked about. It costs a sum, and few races need it. What ends above where it
// stood, the race has looked for among them.
bool WinnerQuestion::shuts_out_absent() {
    if (filter_ != Step::top_p || !total_is_given() || !lowers_ || is_shut_) return false;
    const float from = weighed_.row.lean->there_from();
    const Candidate behind = {from, kAfterAll};
    constexpr std::uint32_t kMostBlocks = 256;  // of more the sum costs as much as what it saves
    const bool has_few = count_at_least(weighed_.block_max, from) <= kMostBlocks;
    if (!has_few || from == -std::numeric_limits<float>::infinity()) return false;
    sum_row();
    if (mass_before(behind, kEverything).low < params_.top_p * total().high) return false;
    end_ = behind;
    values_.floor = from;
    is_shut_ = true;
    return true;
}

// A winner that its own weight does not keep is asked about again.
std::optional<double> WinnerQuestion::all_above(const Candidate& winner) {
    if (!above_whom_ || above_whom_->token != winner.token || above_whom_->value != winner.value) {
        above_whom_ = winner;
        row_above_ = weigh_before(weighed_, winner);
    }
    return row_above_;
}

WinnerQuestion::Between WinnerQuestion::known_before(const KnownWeights& known,
                                                     const Candidate& winner) const {
    const Between before = with_change(known.before, winner, kEverything);
    if (known.all_before) return before;
    const double most = raw_total_ * (1.0 + raw_error_) - known.behind * (1.0 - kWeightError);
    return {before.low - changed_.unread(), with_change(most, winner, kEverything).high};
}

// What is known of a row that is there in part is most often enough. Where it is not, all is asked for that
// the next try can need.
Verdict WinnerQuestion::ask_top_p_of_lean(const Candidate& winner) {
    sum_row();
    const auto row_above = all_above(winner);
    KnownWeights known = row_above ? KnownWeights{*row_above, 0.0, true} : weigh_known(weighed_, winner);
    Between before = known_before(known, winner);
    Verdict verdict = judge_top_p(before, total(), winner);
    // To look at what each block weighs costs as much again, and few need it.
    if (verdict == Verdict::open && !known.all_before && weighed_.row.lean->know_weights(weighed_.scale)) {
        known = weigh_known(weighed_, winner);
        before = known_before(known, winner);
        verdict = judge_top_p(before, total(), winner);
    }
    if (verdict != Verdict::open) return verdict;
    if (known.all_before) {
        if (!changed_.left_unread()) return judge_top_p_exactly(winner);
        ask_for_changed(before);
        return verdict;
    }
    ask_for_before(weighed_, winner);
    // How much the next try leaves room for, nobody knows yet.
    constexpr double kPart = 0.04;
    if (changed_.left_unread()) changed_.ask_for_unread(kPart * total().high);
    return verdict;
}

// All that stands before the winner is there, and all that changed: in double, nothing is left uncertain but
// what the row's own weight is off. Else one of ten thousand decisions would ask for its whole row, and a
// step of many columns is as late as the one that does.
Verdict WinnerQuestion::judge_top_p_exactly(const Candidate& winner) {
    double before = weigh_before_exactly(weighed_, winner);
    double change = 0.0;
    double moved = 0.0;
    const auto stands_before = [&](double value, std::uint32_t token) {
        return value > winner.value || (value == winner.value && token < winner.token);
    };
    for (const ChangedToken& each : changed_.moved_tokens()) {
        const double was = each.raw == kNothing ? 0.0 : weight(each.raw);
        const double is = each.adjusted == kNothing ? 0.0 : weight(each.adjusted);
        if (stands_before(each.raw, each.token)) before -= was;
        if (stands_before(each.adjusted, each.token)) before += is;
        change += is - was;
        moved += is + was;
    }
    const double rounded = (raw_total_ + moved + 1.0) * kExactError;
    const double all = raw_total_ + change;
    const double error = raw_total_ * raw_error_ + rounded;
    return judge_top_p({std::max(0.0, before - rounded), before + rounded}, {all - error, all + error},
                       winner);
}

Verdict WinnerQuestion::judge_top_p(const Between& before, const Between& all, const Candidate& winner) {
    if (before.high < params_.top_p * all.low) return Verdict::kept;
    if (before.low < params_.top_p * all.high) return Verdict::open;
    end_ = winner;
    values_.floor = float_below(winner.value);
    return Verdict::gone;
}

// Most winners have so little above them that what was read of the row on the way outweighs it.
Verdict WinnerQuestion::ask_top_p(const Candidate& winner) {
    if (total_is_given()) return ask_top_p_of_lean(winner);
    const WeightBefore found = weight_before_and_least(weighed_, winner);
    const Between before = with_change(found.before, winner, kEverything);
    const double least = found.least_total * (1.0 - kWeightError - kExactError) + changed_.change() -
                         changed_.moved() * kChangedError - changed_.unread();
    if (before.high < params_.top_p * least) return Verdict::kept;
    sum_row();
    const Verdict verdict = judge_top_p(before, total(), winner);
    if (verdict == Verdict::open) ask_for_changed(before);
    return verdict;
}

// What was not read of the changed tokens may be all that leaves the question open. Then it is what the next
// try needs, and there is one, for what was asked for makes this one void.
void WinnerQuestion::ask_for_changed(const Between& before) {
    const double least = total().low + changed_.unread();
    if (changed_.left_unread()) changed_.ask_for_unread(least - before.high / params_.top_p);
}

}  // namespace croupier::sampler

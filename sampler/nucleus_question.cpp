// Whether a top-p keeps the race's winner: judged by the winner's own weight, by the blocks that are there,
// or by the whole row.
#include <algorithm>
#include <cmath>
#include <limits>

#include "sampler/canonical_order.h"
#include "sampler/exp.h"
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

// If the row's sum is off by this part of what the adjustments leave of it, more of its blocks would seldom
// settle which tokens a top-p keeps: decisions that asked for some asked four to six times, and for all in
// the end.
constexpr double kDoubtful = 0.05;
// The same while not all that stands before the winner is there.
constexpr double kHopeless = 0.5;

}  // namespace

// What a mask hides may stand so far above what it leaves that a sum of both says nothing about the latter.
bool WinnerQuestion::may_keep_by_own_weight() const {
    const LeanBlocks* lean = weighed_.row.lean;
    return filter_ == Step::top_p && lowers_ && lean != nullptr && lean->knows_under(weighed_.mask) &&
           weighed_.reference != kNothing && can_be_weighed(weighed_.reference, weighed_.scale);
}

// The row weighs at least as much as the winner and what stands above it. A lowered token that still stands
// above the winner stood there before: the row as it was written has no less above it.
bool WinnerQuestion::keeps_by_own_weight(const Candidate& winner) {
    const auto row_has_above = row_above(winner).all;
    if (!row_has_above) return false;
    const auto stood = static_cast<double>(weighed_.row.value_at(winner.token));
    const double self = stood > winner.value ? weight(stood) * (1.0 - kWeightError) : 0.0;
    const double above = std::max(0.0, *row_has_above * (1.0 + kWeightError) - self) + kExactError;
    const double share = params_.top_p - 2.0 * kExactError;
    return above * (1.0 - share) < share * weight(winner.value);
}

// If the entries above all absent ones have the share already, none of the absent ones is kept: no winner
// among them needs to be asked about. It costs a sum, and few races need it. Tokens that end above where they
// stood are listed by the race, wherever they are.
bool WinnerQuestion::exclude_absent() {
    if (filter_ != Step::top_p || !total_is_given() || !lowers_ || excludes_absent_) return false;
    const float from = weighed_.row.lean->there_from();
    const Candidate behind = {from, kAfterAll};
    constexpr std::uint32_t kMostBlocks = 256;  // of more the sum costs as much as what it saves
    const bool has_few = count_at_least(weighed_.block_max, from) <= kMostBlocks;
    if (!has_few || from == -std::numeric_limits<float>::infinity()) return false;
    sum_row();
    if (mass_before(behind, kEverything).low < params_.top_p * total().high) return false;
    end_ = behind;
    values_.floor = from;
    excludes_absent_ = true;
    return true;
}

// Whether the adjustments have taken so much of the row's weight that its sum's error is about this share of
// the rest. Unread tokens are not known to take anything.
bool WinnerQuestion::has_left_little(double share) const {
    return (raw_total_ + changed_.change()) * share <= raw_total_ * raw_error_;
}

// Kept, because a winner that its own weight does not keep is asked about again.
const WinnerQuestion::RowAbove& WinnerQuestion::row_above(const Candidate& winner) {
    const bool is_known =
        row_above_ && row_above_->whom.token == winner.token && row_above_->whom.value == winner.value;
    if (is_known) return *row_above_;
    RowAbove above{winner, sent_above(winner), std::nullopt};
    above.all = above.is_sent() ? std::optional(above.sent.low) : weigh_before(weighed_, winner);
    return row_above_.emplace(above);
}

// From what stands before the race's best tokens, as the row's writer summed it in units of its largest
// entry. For a winner that was lowered, from its neighbours among them.
WinnerQuestion::Interval WinnerQuestion::sent_above(const Candidate& winner) const {
    Interval above{0.0, kEverything};
    if (!weighed_.row.lean->knows_under(weighed_.mask)) return above;
    for (const proto::Racer& each : weighed_.row.lean->racers_at(weighed_.scale)) {
        if (!(each.before >= 0.0F && std::isfinite(each.before))) continue;
        const Candidate stands = {static_cast<double>(each.logit), each.token};
        const auto before = static_cast<double>(each.before);
        if (!canonically_before(winner, stands)) above.low = std::max(above.low, before);
        if (!canonically_before(stands, winner)) above.high = std::min(above.high, before);
    }
    return above;
}

// From the blocks that are there, and the largest entries of the others.
WinnerQuestion::Interval WinnerQuestion::known_above(const Candidate& winner) const {
    const KnownWeights known = weigh_known(weighed_, winner);
    return {known.before, raw_total_ * (1.0 + raw_error_) - known.behind * (1.0 - kWeightError)};
}

// What stands before the winner. Each unread token may have stood there and have fallen behind it.
WinnerQuestion::Interval WinnerQuestion::before_with_unread(const Interval& row_has_above,
                                                            const Candidate& winner) const {
    return {with_change(row_has_above.low, winner, kEverything).low - changed_.unread_standing(),
            with_change(row_has_above.high, winner, kEverything).high};
}

// What is known of a partial row is usually enough. Where it is not, everything that the next try can need is
// asked for.
Verdict WinnerQuestion::ask_top_p_of_lean(const Candidate& winner) {
    sum_row();
    const RowAbove& above = row_above(winner);
    if (above.all) return ask_with_all_above(winner, above);
    const auto judge = [&](const Interval& row_has_above) {
        return judge_top_p(before_with_unread(row_has_above, winner), total(), winner);
    };
    Verdict verdict = judge(above.sent);
    if (verdict == Verdict::open) verdict = judge(known_above(winner));
    // Looking at what each block weighs costs as much again, and few decisions need it.
    if (verdict == Verdict::open && weighed_.row.lean->know_weights(weighed_.scale))
        verdict = judge(known_above(winner));
    if (verdict != Verdict::open) return verdict;
    if (has_left_little(kHopeless)) return ask_for_all();
    ask_for_before(weighed_, winner);
    // How wide the next try's interval will be is not known yet.
    constexpr double kPart = 0.04;
    if (changed_.left_unread()) changed_.ask_for_unread(kPart * total().high);
    return verdict;
}

// Most questions that unread tokens leave open are settled by a bound of what they can lose, which is less
// than all of their weight.
Verdict WinnerQuestion::ask_with_all_above(const Candidate& winner, const RowAbove& above) {
    Interval before = with_change(*above.all, winner, kEverything);
    // Absent tokens stand behind the winner, unless only its writer has summed what stands before.
    if (above.is_sent()) before.low -= changed_.unread_standing();
    Verdict verdict = judge_top_p(before, total(), winner);
    if (verdict == Verdict::open && changed_.left_unread()) {
        changed_.bound_unread();
        verdict = judge_top_p(before, total(), winner);
    }
    const auto all_is_there = [&] { return !above.is_sent() || weigh_before(weighed_, winner); };
    if (verdict == Verdict::open && all_is_there()) {
        verdict = judge_by_what_is_left(winner);
        if (verdict == Verdict::open) verdict = judge_top_p_exactly(winner);
    }
    if (verdict != Verdict::open) return verdict;
    // For a leader that is asked about while other blocks are missing, only if the sum decides nothing.
    if (has_left_little(weighed_.row.lacks_blocks() ? kHopeless : kDoubtful)) return ask_for_all();
    if (changed_.left_unread()) {
        ask_for_changed(before);
    } else {
        ask_for_before(weighed_, winner);
    }
    return verdict;
}

// All that stands before the winner is there, and changed tokens in absent blocks stand behind it. In double,
// only the error of the row's own weight and the unread tokens' weight are left uncertain. Without this, one
// of some thousand decisions would ask for its whole row, and a step of many columns is as late as its latest
// one.
Verdict WinnerQuestion::judge_top_p_exactly(const Candidate& winner) {
    double before = weigh_before_exactly(weighed_, winner);
    double change = 0.0;
    double moved = 0.0;
    for (const ChangedToken& each : changed_.moved_tokens()) {
        const double was = weight_or_none(each.raw);
        const double is = weight_or_none(each.adjusted);
        if (canonically_before({each.raw, each.token}, winner)) before -= was;
        if (canonically_before({each.adjusted, each.token}, winner)) before += is;
        change += is - was;
        moved += is + was;
    }
    const double rounded = (raw_total_ + moved + 1.0) * kExactError;
    const double all = raw_total_ + change;
    const double error = raw_total_ * raw_error_ + rounded;
    return judge_top_p({std::max(0.0, before - rounded), before + rounded},
                       {all - error - changed_.unread(), all + error}, winner);
}

// If little of the row's weight is left, its sum less what was taken says little about the rest. The blocks
// that are there are then added up without the taken tokens, and each absent block counts with at most its
// largest entry. All that stands before the winner is there.
Verdict WinnerQuestion::judge_by_what_is_left(const Candidate& winner) {
    constexpr double kNats = 20.0;  // what is farther below the winner adds next to nothing
    // Below this share the sum, which exists already, tells more than the blocks that are there.
    constexpr double kTold = 1e-3;
    if (!has_left_little(kTold)) return Verdict::open;
    const double floor = winner.value - kNats / weighed_.scale;
    const std::span<const ChangedToken> moved = changed_.moved_tokens();
    const auto bits_of = [&](const ChangedToken& each) -> std::uint64_t& {
        return workspace_.taken[each.token / kBlock];
    };
    for (const ChangedToken& each : moved) bits_of(each) |= std::uint64_t{1} << each.token % kBlock;
    const LeftWeights left =
        weigh_left(weighed_, winner, workspace_.taken, changed_.highest(), float_below(floor));
    for (const ChangedToken& each : moved) bits_of(each) = 0;
    if (left.highest == kNothing) return Verdict::open;
    const auto weight_of = [&](double value) {
        return exp_nonpositive((std::min(value, left.highest) - left.highest) * weighed_.scale);
    };
    double before = left.before;
    double all = left.all;
    double rest = left.rest * (1.0 + kWeightError);
    for (const ChangedToken& each : moved) {
        if (each.adjusted < floor) {
            rest += each.adjusted == kNothing ? 0.0 : weight_of(floor);
            continue;
        }
        const double weight = weight_of(each.adjusted);
        all += weight;
        if (canonically_before({each.adjusted, each.token}, winner)) before += weight;
    }
    const double error = all * (kWeightError + kExactError);
    const double before_error = before * kWeightError + (all + rest) * kExactError;
    return judge_top_p({before - before_error, before + before_error}, {all - error, all + error + rest},
                       winner);
}

// Asks for the whole row: no part of it would settle the question.
Verdict WinnerQuestion::ask_for_all() {
    weighed_.row.ask_for_absent();
    return Verdict::open;
}

Verdict WinnerQuestion::judge_top_p(const Interval& before, const Interval& all, const Candidate& winner) {
    if (before.high < params_.top_p * all.low) return Verdict::kept;
    // Written so that NaN leaves the question open.
    if (!(before.low >= params_.top_p * all.high)) return Verdict::open;
    end_ = winner;
    values_.floor = float_below(winner.value);
    return Verdict::gone;
}

// Most winners have so little above them that what was already read outweighs it.
Verdict WinnerQuestion::ask_top_p(const Candidate& winner) {
    if (total_is_given()) return ask_top_p_of_lean(winner);
    const WeightBefore found = weight_before_and_least(weighed_, winner);
    const Interval before = with_change(found.before, winner, kEverything);
    const double least = found.least_total * (1.0 - kWeightError - kExactError) + changed_.change() -
                         changed_.moved() * kChangedError - changed_.unread();
    if (before.high < params_.top_p * least) return Verdict::kept;
    sum_row();
    Verdict verdict = judge_top_p(before, total(), winner);
    if (verdict == Verdict::open) verdict = judge_by_what_is_left(winner);
    if (verdict == Verdict::open) ask_for_changed(before);
    return verdict;
}

// Unread changed tokens may be all that leaves the question open. Then the next try needs them, and there
// will be one, because blocks that were asked for void this one. Asks for enough of them that the rest cannot
// change the verdict.
void WinnerQuestion::ask_for_changed(const Interval& before) {
    constexpr double kLeastPart = 1e-3;
    if (!changed_.left_unread()) return;
    const double unread = changed_.unread();
    const double to_keep = total().low + unread - before.high / params_.top_p;
    const double to_drop = before.low + changed_.unread_standing() - params_.top_p * total().high;
    changed_.ask_for_unread(std::max({to_keep, to_drop, kLeastPart * total().high}));
}

}  // namespace croupier::sampler

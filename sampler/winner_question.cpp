#include "sampler/winner_question.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sampler/canonical_order.h"
#include "sampler/chain.h"
#include "sampler/exp.h"
#include "sampler/float_bounds.h"
#include "sampler/log.h"
#include "sampler/row_mass.h"
#include "sampler/row_scan.h"

namespace croupier::sampler {
namespace {

using proto::Step;

constexpr double kNothing = -std::numeric_limits<double>::infinity();
constexpr double kEverything = std::numeric_limits<double>::infinity();
constexpr std::uint32_t kAfterAll = std::numeric_limits<std::uint32_t>::max();

// As parts of the row's weight. If more than the first is unread, a search for the share asks for far more of
// the best tokens than it keeps; if only the second is left, few rows have a token that close to the share.
constexpr double kMostUnreadOfShare = 0.02;
constexpr double kLeftUnreadOfShare = 1e-3;
// Smaller weights do not change a sum.
constexpr float kLeastWeight = 1e-30F;

}  // namespace

WinnerQuestion::WinnerQuestion(Step filter, const proto::SamplingParams& params, const BlockedRow& row,
                               const Adjuster& adjust, CandidateSearch& search, const Pruning& pruning,
                               Workspace& workspace)
    : filter_(filter),
      params_(params),
      search_(search),
      on_(pruning.adjustments),
      workspace_(workspace),
      weighed_{row, workspace.block_max.first(row.blocks), adjust.mask(),
               largest_entry(row, adjust.mask(), workspace.block_max.first(row.blocks)), pruning.scale},
      changed_(weighed_, adjust, on_, workspace),
      lowers_(adjust.lowers_only(on_) && !adjust.has_raising_bias()),
      end_{kNothing, kAfterAll},
      first_{kEverything, 0},
      above_{kEverything, kAfterAll},
      below_{kNothing, kAfterAll} {}

bool WinnerQuestion::begin() {
    if (filter_ == Step::min_p) return begin_min_p();
    if (weighed_.reference == kNothing || !can_be_weighed(weighed_.reference, weighed_.scale)) return false;
    if (!changed_.list(!leaves_absent())) return false;
    switch (filter_) {
        case Step::top_p:
            return true;
        case Step::xtc:
            return begin_xtc();
        case Step::top_n_sigma:
            return begin_sigma();
        case Step::typical_p:
        case Step::temperature:
            return compute_spread();
        default:
            return compute_total();
    }
}

bool WinnerQuestion::may_be_kept(const Candidate& candidate) const {
    if (filter_ == Step::min_p) {
        return candidate.value == maximum_ ||
               Weigher{maximum_, weighed_.scale}.weight(candidate.value) >= params_.min_p;
    }
    if (!canonically_before(candidate, end_) || canonically_before(candidate, first_)) return false;
    const auto smaller_id = [&](const Candidate& of) { return candidate.token < of.token; };
    if (candidate.value >= above_.value) return candidate.value == above_.value && smaller_id(above_);
    if (candidate.value <= below_.value) return candidate.value == below_.value && smaller_id(below_);
    return true;
}

Verdict WinnerQuestion::ask(const Candidate& winner) {
    switch (filter_) {
        case Step::top_p:
            return ask_top_p(winner);
        case Step::typical_p:
            return ask_typical(winner);
        case Step::top_n_sigma:
            return winner.value >= keep_threshold_ ? Verdict::kept : Verdict::open;
        case Step::min_p:
        case Step::xtc:  // begin() has settled both
            return Verdict::kept;
        default:
            return Verdict::open;
    }
}

// Whether the filter's question can be judged by bounds of sums.
bool WinnerQuestion::leaves_absent() const {
    return filter_ == Step::top_p || filter_ == Step::xtc || filter_ == Step::end;
}

double WinnerQuestion::value_of(double weight) const {
    return value_at(log_positive(weight));
}

double WinnerQuestion::weight(double value) const {
    const double x = exponent(value);
    return x <= 0.0 ? exp_nonpositive(x) : 1.0 / exp_nonpositive(-x);
}

void WinnerQuestion::sum_row() {
    if (raw_total_ != 0.0) return;
    if (total_is_given()) raw_error_ = kSentWeightError;
    raw_total_ = total_weight(mass_of_row(), workspace_.weighed);
}

bool WinnerQuestion::compute_total() {
    sum_row();
    return total().low > 0.0;
}

bool WinnerQuestion::begin_share() {
    if (!begin() || unread_part() > kMostUnreadOfShare) ask_for_unread(kLeftUnreadOfShare);
    return !weighed_.row.lacks_blocks() && total().low > 0.0;
}

void WinnerQuestion::ask_for_closer_total() {
    ask_for_unread(unread_part() > kLeftUnreadOfShare ? kLeftUnreadOfShare : 0.0);
}

WinnerQuestion::Interval WinnerQuestion::total() const {
    const double total = raw_total_ + changed_.change();
    const double error = raw_total_ * raw_error_ + changed_.moved() * kChangedError + total * kExactError;
    return {total - error - changed_.unread(), total + error};
}

// Corrects a sum over the unadjusted row, of the tokens before `place` in canonical order whose values are
// below `below`, for the changed tokens. If an unread one could stand before the place, the sum has asked for
// its block.
WinnerQuestion::Interval WinnerQuestion::with_change(double raw, const Candidate& place, double below) const {
    double change = 0.0;
    double moved = 0.0;
    // Unpredictable, so without a branch.
    const auto counts = [&](double value, std::uint32_t token) {
        const bool above = (value > place.value) | ((value == place.value) & (token < place.token));
        return static_cast<double>(above & (value < below));
    };
    for (const ChangedToken& each : changed_.moved_tokens()) {
        const double before = counts(each.raw, each.token) * static_cast<double>(each.raw_weight);
        const double after = counts(each.adjusted, each.token) * static_cast<double>(each.weight);
        change += after - before;
        moved += after + before;
    }
    // The reference adds up masses in whole numbers, which are off by a share of the total.
    const double error = raw * kWeightError + moved * kChangedError +
                         (raw + raw_total_ + changed_.moved() + 1.0) * kExactError;
    return {std::max(0.0, raw + change - error), std::max(0.0, raw + change + error)};
}

WinnerQuestion::Interval WinnerQuestion::mass_before(const Candidate& place, double below) const {
    return with_change(weight_before(weighed_, place, float_above(below)), place, below);
}

// Whether a partial row's total is given by its writers: then the blocks that are there add to it.
bool WinnerQuestion::total_is_given() const {
    return weighed_.row.lean != nullptr && known_weight(mass_of_row(), workspace_.weighed);
}

// Of the tokens that reach the threshold, all but the least likely are dropped. If unread changed tokens
// leave this open, or the search would go far below the threshold, the next try needs them.
bool WinnerQuestion::begin_xtc() {
    constexpr double kMostUnread = 0.1;
    if (compute_total() && changed_.unread() <= kMostUnread * total().high && find_reaching()) return true;
    ask_for_unread(0.0);
    return false;
}

bool WinnerQuestion::find_reaching() {
    const Interval limit = {params_.xtc_threshold * total().low, params_.xtc_threshold * total().high};
    const double floor = value_of(limit.low * 0.99);
    const std::uint32_t count = search_.at_least(float_below(floor), on_).count;
    sort_canonically(workspace_, count);
    const auto found = workspace_.candidates.first(count);
    std::uint32_t reaching = 0;
    while (reaching < count && weight(found[reaching].value) >= limit.high) ++reaching;
    if (reaching < count && weight(found[reaching].value) >= limit.low) return false;
    if (reaching < 2) return true;
    first_ = found[reaching - 1];
    values_.ceiling = float_above(first_.value);
    return true;
}

// By weights alone, as Survivors::keep_min_p() does: nothing is left open.
bool WinnerQuestion::begin_min_p() {
    const auto found = find_maximum();
    if (!found) return false;
    maximum_ = *found;
    values_.floor = float_below(min_p_floor(params_.min_p, weighed_.scale, maximum_));
    return true;
}

// The maximum of all adjusted tokens.
std::optional<double> WinnerQuestion::find_maximum() {
    Pruning best;
    best.top_k = 1;
    best.adjustments = on_;
    if (search_.search(best).count == 0) return std::nullopt;
    return workspace_.candidates.front().value;
}

// The threshold is known to lie in an interval; values inside it are left open.
bool WinnerQuestion::begin_sigma() {
    const auto found = find_maximum();
    if (!found) return false;
    const double maximum = *found;
    Moments all = moments_of(weighed_);
    const double squares_error = all.squares * kMomentError;
    const double distances_error = -all.distances * kMomentError;
    for (const ChangedToken& each : changed_.moved_tokens()) {
        const auto take = [&](double value, double sign) {
            if (value == kNothing) return;
            const double off = value - weighed_.reference;
            all.tokens += sign;
            all.distances += sign * off;
            all.squares += sign * (off * off);
        };
        take(each.raw, -1.0);
        take(each.adjusted, 1.0);
    }
    const double mean = all.distances / all.tokens;
    const double variance = all.squares / all.tokens - mean * mean;
    const double error = (squares_error + 2.0 * std::abs(mean) * distances_error) / all.tokens +
                         kExactError * (1.0 + mean * mean);
    // Distances beyond what float can square: padding of -1e30, say, or the lowest float.
    if (!std::isfinite(variance) || !std::isfinite(error)) return false;
    const double least = std::sqrt(std::max(0.0, variance - error));
    const double most = std::sqrt(std::max(0.0, variance + error));
    const double slack = kExactError * (1.0 + std::abs(maximum));
    // The best is kept whatever sigma is.
    keep_threshold_ = std::min(maximum, maximum - params_.top_n_sigma * least + slack);
    const double possible = maximum - params_.top_n_sigma * most - slack;
    end_ = {possible, kAfterAll};
    values_.floor = float_below(possible);
    return true;
}

// |-ln p - H| is the distance of a token's exponent from the mean of all exponents, each by its weight.
bool WinnerQuestion::compute_spread() {
    const Spread spread = spread_of(weighed_);
    raw_total_ = spread.weight;
    tokens_ = spread.tokens;
    double exponents = spread.exponents;
    double moved = 0.0;
    const auto times_exponent = [&](float weight, double value) {
        // The least weights are larger than what they stand for, and exponents may be as large as 1e38.
        const bool some = value != kNothing && weight > kLeastWeight;
        const double product = some ? static_cast<double>(weight) * exponent(value) : 0.0;
        moved += std::abs(product);
        return product;
    };
    for (const ChangedToken& each : changed_.moved_tokens()) {
        exponents += times_exponent(each.weight, each.adjusted);
        exponents -= times_exponent(each.raw_weight, each.raw);
        tokens_ -= each.adjusted == kNothing ? 1.0 : 0.0;
    }
    const Interval all = total();
    if (!(all.low > 0.0)) return false;
    centre_ = exponents / (raw_total_ + changed_.change());
    const double sums = 2.0 * kWeightError * -spread.exponents + kChangedError * moved +
                        (all.high - all.low) * std::abs(centre_);
    centre_error_ = sums / all.low + kExactError * (1.0 + std::abs(centre_));
    return true;
}

WinnerQuestion::Interval WinnerQuestion::entropy() const {
    const Interval all = total();
    return {log_positive(all.low) - centre_ - centre_error_,
            log_positive(all.high) - centre_ + centre_error_};
}

// If doubles round two distances to the same value, the larger logit comes first. Below the centre this is
// the order of the distances; above it is not, and values that close to the winner's are left open. Among the
// row's own values only those next to zero are that close: other floats lie farther apart.
bool WinnerQuestion::ties_by_rounding(const Candidate& winner) const {
    constexpr double kRounding = 1e-13;
    const double most =
        kRounding * (1.0 + std::abs(exponent(winner.value)) + std::abs(centre_)) / weighed_.scale;
    const auto tokens = changed_.moved_tokens();
    return std::abs(winner.value) * 0x1p-24 <= most ||
           std::any_of(tokens.begin(), tokens.end(), [&](const ChangedToken& each) {
               return each.adjusted != winner.value && std::abs(each.adjusted - winner.value) <= most;
           });
}

// The winner's mirror image beyond the centre is known to within twice the centre's error: values in between
// are left open.
Verdict WinnerQuestion::ask_typical(const Candidate& winner) {
    const double own = exponent(winner.value);
    const double slack = 2.0 * centre_error_ + kExactError * (1.0 + std::abs(own));
    const double mirror = 2.0 * centre_ - own;
    const double nearer = value_at(mirror - slack);
    const double farther = value_at(mirror + slack);
    const Candidate from_nearer = {nearer, kAfterAll};
    const Candidate from_farther = {farther, kAfterAll};
    Interval closer{};
    if (own < centre_ - slack) {
        closer = mass_before(winner, nearer);
        closer.high += mass_before(from_nearer, farther).high;
    } else if (own > centre_ + slack && !ties_by_rounding(winner)) {
        const Interval equal = mass_before(winner, std::nextafter(winner.value, kEverything));
        closer = mass_before(from_farther, winner.value);
        closer.low += equal.low;
        closer.high += equal.high + mass_before(from_nearer, farther).high;
    } else {
        return Verdict::open;
    }
    const Interval all = total();
    if (closer.high <= params_.typical_p * all.low) return Verdict::kept;
    if (closer.low <= params_.typical_p * all.high) return Verdict::open;
    // Tokens that are as far off are dropped too: on the same side by value, since everything counted is
    // nearer; on the other side as far as the mirror image is known.
    if (own < centre_) {
        below_ = winner;
        if (farther < above_.value) above_ = {farther, kAfterAll};
    } else {
        above_ = winner;
        if (nearer > below_.value) below_ = {nearer, kAfterAll};
    }
    values_ = {float_below(below_.value), float_above(above_.value)};
    return Verdict::gone;
}

}  // namespace croupier::sampler

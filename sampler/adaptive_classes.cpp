#include "sampler/adaptive_classes.h"

#include <algorithm>
#include <limits>

#include "sampler/canonical_order.h"
#include "sampler/class_sums.h"

namespace croupier::sampler {
namespace {

// How far a logit may be from where others' order has it. The quotient in it has several roundings, so that
// of close probabilities the nearer one may come out lower.
double rounding_of(double logit) {
    return (kAdaptivePeak - logit) * 0x1p-48 + 0x1p-50;
}

}  // namespace

AdaptiveClasses::AdaptiveClasses(RowClasses& rows, const Survivors& survivors, const AdaptiveLogit& logit,
                                 Workspace& workspace)
    : rows_(rows), survivors_(survivors), logit_(logit), workspace_(workspace) {
    const auto reaches = [&](const EqualClass& each) { return logit.probability(each.value) >= logit.aim; };
    const auto all = classes();
    centre_ = static_cast<std::size_t>(std::partition_point(all.begin(), all.end(), reaches) - all.begin());
}

AdaptiveClasses::Span AdaptiveClasses::span_of(std::size_t place) const {
    const EqualClass& of = classes()[place];
    const double high = logit_.probability(of.value);
    const double low = of.is_mixed() ? logit_.probability(of.least) : high;
    const double at_high = adaptive_logit(high, logit_.aim);
    const double at_low = adaptive_logit(low, logit_.aim);
    const bool around = low <= logit_.aim && logit_.aim <= high;
    const double least = std::min(at_low, at_high);
    const double most = around ? kAdaptivePeak : std::max(at_low, at_high);
    return {least - rounding_of(least), most + rounding_of(most), around};
}

// Puts the tokens of these classes, with their replaced logits, into the workspace's first candidates.
std::uint32_t AdaptiveClasses::replace_run(std::size_t begin, std::size_t end) {
    const std::uint32_t count = rows_.list_left(survivors_, begin, end);
    replace_logits(workspace_.candidates.first(count), logit_);
    return count;
}

std::span<const Candidate> AdaptiveClasses::first(std::uint32_t wanted) {
    // A sort of few is cheaper by comparisons, above all of many equal ones that stand by their ids.
    constexpr std::uint32_t kFew = 256;
    constexpr Span kNone = {0.0, -std::numeric_limits<double>::infinity()};
    std::size_t begin = centre_;
    std::size_t end = centre_;
    const auto above = [&] { return begin > 0 ? span_of(begin - 1) : kNone; };
    const auto below = [&] { return end < classes().size() ? span_of(end) : kNone; };
    Span up = above();
    Span down = below();
    std::uint32_t tokens = 0;
    double least = std::numeric_limits<double>::infinity();
    while (begin > 0 || end < classes().size()) {
        // Logits may be NaN where the row's maxima are false.
        const bool takes_up = end == classes().size() || (begin > 0 && up.high >= down.high);
        const Span next = takes_up ? up : down;
        if (tokens >= wanted && next.high < least) break;
        if (tokens < wanted) least = std::min(least, next.low);
        tokens += classes()[takes_up ? --begin : end++].size;
        (takes_up ? up : down) = takes_up ? above() : below();
    }
    const std::uint32_t count = replace_run(begin, end);
    const std::uint32_t some = std::min(wanted, count);
    const auto found = workspace_.candidates.first(count);
    if (some <= kFew) {
        std::partial_sort(found.begin(), found.begin() + some, found.end(), canonically_before);
    } else {
        sort_best(workspace_, count, some);
    }
    return found.first(some);
}

// Of these classes. Those at either end that are not mixed are counted by their size. The rest is listed in
// one pass over the row, whatever stands between mixed classes: a pass for each costs too much.
std::uint32_t AdaptiveClasses::count_in(std::size_t begin, std::size_t end, double logit, bool or_equal) {
    const auto counts = [&](double each) { return or_equal ? each >= logit : each > logit; };
    const auto known = [&](std::size_t place) {
        const EqualClass& of = classes()[place];
        return counts(logit_(of.value)) ? of.size : 0;
    };
    std::uint32_t count = 0;
    while (begin < end && !classes()[begin].is_mixed()) count += known(begin++);
    while (begin < end && !classes()[end - 1].is_mixed()) count += known(--end);
    if (begin == end) return count;
    const auto found = workspace_.candidates.first(replace_run(begin, end));
    const auto above =
        std::count_if(found.begin(), found.end(), [&](const Candidate& each) { return counts(each.value); });
    return count + static_cast<std::uint32_t>(above);
}

// Outwards from the aim logits fall, but for their rounding: those that are surely above stand first, and
// behind them those that may be. The class around the aim is none of these: on its other side it may reach
// farther down than the next one does.
std::uint32_t AdaptiveClasses::count_above(double logit, bool or_equal) {
    std::uint32_t count = 0;
    const auto count_side = [&](std::size_t length, auto place_of) {
        std::size_t surely = 0;
        std::size_t most = length;
        while (surely < most) {
            const std::size_t middle = surely + (most - surely) / 2;
            const bool above = span_of(place_of(middle)).low > logit;
            (above ? surely : most) = above ? middle + 1 : middle;
        }
        for (std::size_t i = 0; i < surely; ++i) count += classes()[place_of(i)].size;
        while (most < length && span_of(place_of(most)).high >= logit) ++most;
        if (surely == most) return;
        const auto [begin, last] = std::minmax({place_of(surely), place_of(most - 1)});
        count += count_in(begin, last + 1, logit, or_equal);
    };
    std::size_t upper = centre_;
    if (upper > 0 && span_of(upper - 1).around) {
        --upper;
        const bool above = span_of(upper).low > logit;
        count += above ? classes()[upper].size : count_in(upper, centre_, logit, or_equal);
    }
    count_side(upper, [&](std::size_t i) { return upper - 1 - i; });
    count_side(classes().size() - centre_, [&](std::size_t i) { return centre_ + i; });
    return count;
}

Mass AdaptiveClasses::total(double largest) const {
    return rows_.total_replaced(classes(), logit_, largest);
}

}  // namespace croupier::sampler

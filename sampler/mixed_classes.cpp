// What Survivors asks of the classes of a 32-bit row that hold several values.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "sampler/canonical_order.h"
#include "sampler/code_range.h"
#include "sampler/row_classes.h"
#include "sampler/row_scan.h"

namespace croupier::sampler {
namespace {

std::uint32_t count_values(std::span<const Candidate> sorted) {
    std::uint32_t values = sorted.empty() ? 0 : 1;
    for (std::size_t i = 1; i < sorted.size(); ++i)
        values += sorted[i].value != sorted[i - 1].value ? 1U : 0U;
    return values;
}

}  // namespace

// The tokens of consecutive classes are the workspace's first candidates.
std::uint32_t RowClasses::gather(std::span<const EqualClass> run) {
    const double least = run.back().least;
    const double most = run.front().value;
    const RowRange standing = range_of(least, most);
    std::uint32_t found = 0;
    if (standing.least <= standing.most)
        found = find_in_range(row_, standing.least, standing.most, workspace_);
    std::uint32_t count = 0;
    for (const Found& each : workspace_.found.first(found)) {
        if (is_moved(each.token) || adjust_.masked(each.token)) continue;
        const auto value = static_cast<double>(each.value);
        if (cut_ > 0 && !stands(value, each.token)) continue;
        workspace_.candidates[count++] = {value, each.token};
    }
    for (const ChangedToken& each : changed()) {
        const bool within = each.adjusted >= least && each.adjusted <= most;
        // A row that is overwritten during the decision may hold more.
        if (within && count < workspace_.vocab) workspace_.candidates[count++] = {each.adjusted, each.token};
    }
    return count;
}

// Classes that were cut stand first or last.
std::uint32_t RowClasses::list_left(const Survivors& left, std::size_t first, std::size_t last) {
    const std::span<const EqualClass> classes = left.classes().subspan(first, last - first);
    const auto found = workspace_.candidates.first(gather(classes));
    const auto is_cut_off = [&](const EqualClass& of, const Candidate& candidate) {
        return of.size < of.whole && candidate.value == of.value && !holds(left, candidate);
    };
    const auto gone = std::remove_if(found.begin(), found.end(), [&](const Candidate& each) {
        return is_cut_off(classes.front(), each) || is_cut_off(classes.back(), each);
    });
    return static_cast<std::uint32_t>(gone - found.begin());
}

std::uint32_t RowClasses::list_held(const Survivors& left) {
    const auto found = workspace_.candidates.first(gather(left.classes()));
    const auto gone =
        std::remove_if(found.begin(), found.end(), [&](const Candidate& each) { return !holds(left, each); });
    return static_cast<std::uint32_t>(gone - found.begin());
}

std::uint32_t RowClasses::split(std::uint32_t place, std::uint32_t some, std::uint32_t count) {
    const std::span<EqualClass> classes = workspace_.classes;
    const std::span<EqualClass> run = classes.subspan(place, some);
    const std::uint32_t gathered = gather(run);
    sort_canonically(workspace_, gathered);
    const auto tokens = workspace_.candidates.first(gathered);
    const std::uint32_t values = count_values(tokens);
    if (gathered != count_tokens(run) || count - some + values > classes.size()) {
        // Only of a row that is overwritten meanwhile, or is not as its maxima say.
        for (EqualClass& each : run) each = class_of(each.least, 0, each.size, each.size);
        return some;
    }
    const auto tail = classes.subspan(place + some, count - place - some);
    std::memmove(&classes[place] + values, tail.data(), tail.size_bytes());
    std::uint32_t made = place;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        if (i > 0 && tokens[i].value == tokens[i - 1].value) {
            ++classes[made - 1].size;
            ++classes[made - 1].whole;
        } else {
            classes[made++] = class_of(tokens[i].value, 0, 1, 1);
        }
    }
    return values;
}

// Of the tokens that stand as they were written. Zeros of either sign are one value.
RowRange RowClasses::range_of(double least, double most) const {
    const float low = float_above(std::max(least, lowest_));
    const float high = float_below(std::min(most, highest_));
    return {row_, request_.mask, workspace_.block_max.first(row_.blocks), low == 0.0F ? -0.0F : low,
            high == 0.0F ? 0.0F : high};
}

// A mixed class is all that has its code. What the pass leaves at other codes is not used.
void RowClasses::sum_mixed(std::span<EqualClass> classes, const Weigher& weigher) {
    const auto is_mixed = [](const EqualClass& each) { return each.is_mixed(); };
    const auto first = std::find_if(classes.begin(), classes.end(), is_mixed);
    if (first == classes.end()) return;
    const auto last = std::find_if(classes.rbegin(), classes.rend(), is_mixed);
    const std::span<Mass> masses = workspace_.code_masses;
    for (const std::uint16_t code : workspace_.counted_codes.first(codes_)) masses[code] = 0;
    masses[kSignCode] = 0;
    add_code_masses(range_of(last->least, first->value), weigher, masses);
    masses[0] += masses[kSignCode];
    for (const ChangedToken& each : changed()) {
        const auto raw = static_cast<double>(each.raw);
        if (raw >= last->least && raw <= first->value) masses[upper_code_of(raw)] -= weigher.mass(raw);
        if (each.adjusted >= last->least && each.adjusted <= first->value)
            masses[upper_code_of(each.adjusted)] += weigher.mass(each.adjusted);
    }
    for (EqualClass& each : classes) {
        if (each.is_mixed()) each.mass = masses[each.begin];
    }
}

// Calls change(value, count) for what the row itself does not tell: tokens that adjustments moved, and those
// that were dropped of a class that is kept in part.
template <class Change>
void RowClasses::visit_moved(std::span<const EqualClass> classes, Change change) const {
    const double least = classes.back().least;
    const double most = classes.front().value;
    const auto within = [least, most](double value) { return value >= least && value <= most; };
    const auto in_row = [&](double value) { return within(value) && value >= lowest_ && value <= highest_; };
    for (const ChangedToken& each : changed()) {
        if (in_row(static_cast<double>(each.raw))) change(static_cast<double>(each.raw), -1);
        if (within(each.adjusted)) change(each.adjusted, 1);
    }
    for (const EqualClass& each : classes) {
        if (each.size < each.whole) change(each.value, -std::int64_t{each.whole - each.size});
    }
    for (const Cut& each : cuts()) {
        if (in_row(each.kept.value)) change(each.kept.value, -std::int64_t{each.dropped});
    }
}

Mass RowClasses::total(std::span<const EqualClass> classes, const Weigher& weigher) const {
    Mass total = mass_of_range(range_of(classes.back().least, classes.front().value), weigher);
    visit_moved(classes, [&](double value, std::int64_t count) {
        total += weigher.mass(value) * static_cast<Mass>(count);
    });
    return total;
}

Mass RowClasses::total_replaced(std::span<const EqualClass> classes, const AdaptiveLogit& logit,
                                double largest) const {
    const auto is_mixed = [](const EqualClass& each) { return each.is_mixed(); };
    if (std::none_of(classes.begin(), classes.end(), is_mixed))
        return replaced_mass_of_values(classes, logit, largest);
    const RowRange range = range_of(classes.back().least, classes.front().value);
    Mass total = replaced_mass_of_range(range, logit, largest);
    const Weigher replaced = {largest, 1.0};
    visit_moved(classes, [&](double value, std::int64_t count) {
        total += replaced.mass(logit(value)) * static_cast<Mass>(count);
    });
    return total;
}

EntropySums RowClasses::entropy_sums(std::span<const EqualClass> classes, const Weigher& weigher) const {
    EntropySums sums = entropy_sums_of_range(range_of(classes.back().least, classes.front().value), weigher);
    visit_moved(classes, [&](double value, std::int64_t count) { sums.add(weigher, value, count); });
    return sums;
}

DistanceSums RowClasses::sum_distances(std::span<const EqualClass> classes) const {
    const double best = classes.front().value;
    DistanceSums sums = sum_of_distances(range_of(classes.back().least, best), best);
    visit_moved(classes, [&](double value, std::int64_t count) {
        sums.add(value - best, static_cast<double>(count));
    });
    return sums;
}

}  // namespace croupier::sampler

// Typical-p over classes: what is nearest to the entropy is kept, on both sides of it.
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "sampler/formulas.h"
#include "sampler/row_classes.h"
#include "sampler/survivors.h"

namespace croupier::sampler {
namespace {

// The places of values that fall and then rise, by value, equal ones by place: two runs, merged.
void order_valley(std::span<const Candidate> values, std::span<std::uint32_t> order) {
    const auto count = static_cast<std::uint32_t>(values.size());
    const auto at = [&](std::uint32_t place) { return values[place].value; };
    std::uint32_t right = 0;  // the first place not taken on the right
    while (right + 1 < count && at(right + 1) <= at(right)) ++right;
    std::uint32_t left = right;  // the places below it are not taken
    std::uint32_t taken = 0;
    while (taken < count) {
        if (left > 0 && (right == count || at(left - 1) <= at(right))) {
            const std::uint32_t end = left--;
            while (left > 0 && at(left - 1) == at(left)) --left;
            for (std::uint32_t place = left; place < end; ++place) order[taken++] = place;
        } else {
            order[taken++] = right++;
        }
    }
}

}  // namespace

double Survivors::largest_distance(const EqualClass& of, double log_of_total, double entropy) const {
    const auto distance = [&](double value) {
        return typical_distance(weigher_.exponent(value), log_of_total, entropy);
    };
    return of.is_mixed() ? std::max(distance(of.least), distance(of.value)) : distance(of.value);
}

// Splits a mixed class that may hold tokens on both sides of the cut, which is in the class that stands last
// or behind it. Returns false if there is none.
bool Survivors::split_for_typical(std::span<const std::uint32_t> order, std::uint32_t last,
                                  double log_of_total, double entropy) {
    if (kept()[last].is_mixed()) {
        split(last, 1);
        return true;
    }
    const auto distance = [&](double value) { return (log_of_total - weigher_.exponent(value)) - entropy; };
    const double cut = std::abs(distance(kept()[last].value));
    for (const std::uint32_t place : order) {
        const EqualClass& each = kept()[place];
        if (!each.is_mixed()) continue;
        const double from = distance(each.value);
        const double to = distance(each.least);
        const double nearest = from <= 0.0 && to >= 0.0 ? 0.0 : std::min(std::abs(from), std::abs(to));
        const double farthest = std::max(std::abs(from), std::abs(to));
        if (nearest > cut || farthest < cut) continue;
        split(place, 1);
        return true;
    }
    return false;
}

std::span<const std::uint32_t> Survivors::order_by_distance(double log_of_total, double entropy) {
    const std::span<Candidate> distances = workspace_->sort_buffer.first(count_);
    std::transform(classes().begin(), classes().end(), distances.begin(), [&](const EqualClass& each) {
        return Candidate{largest_distance(each, log_of_total, entropy), 0};
    });
    const std::span<std::uint32_t> order = workspace_->class_order.first(count_);
    order_valley(distances, order);
    return order;
}

void Survivors::keep_typical(double typical_p) {
    const Mass total = sum_classes();
    const double log_of_total = log_total(total);
    const double limit = typical_p * static_cast<double>(total);
    const double centre = entropy();
    std::span<const std::uint32_t> order = order_by_distance(log_of_total, centre);
    Cut cut = cut_at(order, limit);
    // Each split is a pass over the row. Of values next to zero nearly every class may hold the cut in turn:
    // thousands of splits cost far more than to split all at once.
    constexpr int kMostSplits = 64;
    int splits = 0;
    while (has_mixed() && split_for_typical(order, order[cut.place], log_of_total, centre)) {
        if (++splits == kMostSplits) split_best(tokens());
        order = order_by_distance(log_of_total, centre);
        cut = cut_at(order, limit);
    }
    const std::span<EqualClass> all = kept();
    all[order[cut.place]].size = cut.members;
    for (const std::uint32_t place : order.subspan(cut.place + 1)) all[place].size = 0;
    const auto is_dropped = [](const EqualClass& each) { return each.size == 0; };
    const auto is_cut = [](const EqualClass& each) { return each.size < each.whole; };
    const auto first = std::find_if_not(all.begin(), all.end(), is_dropped);
    const auto last = std::find_if_not(all.rbegin(), all.rend(), is_dropped).base();
    // Of classes whose distances round to the same, those behind the first are dropped first.
    const bool has_gap = last - first > 2 && std::any_of(first + 1, last - 1, is_cut);
    const auto gone = std::remove_if(all.begin(), all.end(), is_dropped);
    count_ = static_cast<std::uint32_t>(gone - all.begin());
    if (has_gap && is_of_row()) *this = Survivors(*workspace_, rows_->list_held(*this));
}

}  // namespace croupier::sampler

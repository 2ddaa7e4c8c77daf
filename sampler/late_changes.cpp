// A step that adjusts logits behind a filter, over the classes of a row: only tokens that it moves are looked
// at one by one.
#include <algorithm>
#include <cstddef>
#include <limits>

#include "sampler/canonical_order.h"
#include "sampler/changed_tokens.h"
#include "sampler/row_classes.h"

namespace croupier::sampler {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

}  // namespace

// Which members are left of a class is found out before any of them moves.
void RowClasses::note_cut(const EqualClass& of) {
    if (of.size == of.whole) return;
    const Cut cut = {kept_part(of), of.whole - of.size};
    cuts_[cut_++] = cut;
}

// A token that a cut dropped moves: the cut does not count it any more. A token that had moved before is in
// no cut of the time before that.
void RowClasses::forget_dropped(double value, std::uint32_t token, std::span<Cut> cuts) {
    for (Cut& each : cuts) {
        const bool kept = token >= each.kept.first && token <= each.kept.last;
        if (each.kept.value != value || kept || each.dropped == 0) continue;
        --each.dropped;
        return;
    }
}

// What becomes of a token with this value that moves to another.
double RowClasses::move(const Survivors& left, const Candidate& from, double to, std::span<Cut> cuts) {
    if (!holds(left, from)) {
        workspace_.dropped[from.token / 64] |= std::uint64_t{1} << (from.token % 64);
        forget_dropped(from.value, from.token, cuts);
        return kNothing;
    }
    const auto begin = static_cast<std::size_t>(left.classes().data() - workspace_.classes.data());
    const auto classes = workspace_.classes.subspan(begin, left.classes().size());
    EqualClass& own = *class_at(classes, from.value);
    own.whole -= std::min(own.whole, 1U);
    own.size -= std::min(own.size, 1U);
    return to;
}

void RowClasses::move_changed(const Survivors& left, Adjustments on, std::span<Cut> new_cuts) {
    for (ChangedToken& each : workspace_.changed.first(changed_)) {
        if (each.adjusted == kNothing) continue;
        const double to = adjust_(each.token, each.raw, on);
        each.adjusted = move(left, {each.adjusted, each.token}, to, new_cuts);
    }
    visit_changed_once(adjust_, on, row_, workspace_, [&](std::uint32_t token, float raw, double adjusted) {
        const auto from = static_cast<double>(raw);
        if (adjust_.masked(token) || is_moved(token) || adjusted == from) return;
        note_moved({move(left, {from, token}, adjusted, cuts()), raw, token, 0.0F, 0.0F});
    });
}

// Adds the tokens that moved to the first `count` classes, or as new classes between them. Returns how many
// there are then.
std::uint32_t RowClasses::merge_moved(std::uint32_t count) {
    std::uint32_t moved = 0;
    for (const ChangedToken& each : changed()) {
        if (each.adjusted > kNothing) workspace_.candidates[moved++] = {each.adjusted, each.token};
    }
    sort_canonically(workspace_, moved);
    const std::span<EqualClass> all = workspace_.classes;
    const std::span<ValueClass> added = workspace_.value_classes;
    std::uint32_t next = 0;
    std::uint32_t values = 0;
    for (const Candidate& each : workspace_.candidates.first(moved)) {
        while (next < count && all[next].least > each.value) ++next;
        if (next < count && each.value <= all[next].value) {
            ++all[next].size;
            ++all[next].whole;
        } else if (values > 0 && added[values - 1].value == each.value) {
            ++added[values - 1].count;
        } else if (count + values < all.size()) {
            added[values++] = {each.value, 1};
        }
    }
    // From the least on, so that no class is written over before it is read.
    const std::uint32_t merged = count + values;
    for (std::uint32_t place = merged; values > 0;) {
        const ValueClass& own = added[values - 1];
        if (count > 0 && all[count - 1].value < own.value) {
            all[--place] = all[--count];
        } else {
            all[--place] = class_of(own.value, 0, own.count, own.count);
            --values;
        }
    }
    return merged;
}

Survivors RowClasses::adjust(const Survivors& left, Adjustments on) {
    const auto kept = left.classes();
    const double lowest = std::max(lowest_, kept.back().least);
    const double highest = std::min(highest_, kept.front().value);
    const std::uint32_t old_cuts = cut_;
    note_cut(kept.front());
    if (kept.size() > 1) note_cut(kept.back());
    move_changed(left, on, cuts().subspan(old_cuts));
    lowest_ = lowest;
    highest_ = highest;
    on_ = on;
    known_parts_ = 0;
    std::uint32_t count = 0;
    for (const EqualClass each : kept) {
        if (each.size == 0) continue;
        EqualClass& own = workspace_.classes[count++];
        own = each;
        own.whole = each.size;
        // Of a mixed class it is its code.
        if (!each.is_mixed()) own.begin = 0;
    }
    return Survivors::of_classes(workspace_, merge_moved(count), *this);
}

}  // namespace croupier::sampler

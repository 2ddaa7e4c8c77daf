#include "sampler/survivors.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "sampler/canonical_order.h"
#include "sampler/formulas.h"
#include "sampler/row_classes.h"

namespace croupier::sampler {

using proto::Step;

namespace {

// How many of a class's members have a mass before them that `holds`, which it stops to do as masses grow.
// The first does.
template <typename Holds>
std::uint32_t members_while(const EqualClass& of, Mass before, Holds holds) {
    std::uint32_t fewest = 1;
    std::uint32_t most = of.size;
    while (fewest < most) {
        const std::uint32_t middle = fewest + (most - fewest + 1) / 2;
        const bool within = holds(static_cast<double>(before + of.mass * (middle - 1)));
        (within ? fewest : most) = within ? middle : middle - 1;
    }
    return fewest;
}

// Beside a best token that is nearly all penalised away the row's error may be any number; and so may all
// sums of a row whose summaries were not its own.
bool is_row_total(double least, double most) {
    return least >= 0.0 && least <= most && most * kMassUnit < 0x1p63;
}

}  // namespace

Survivors::Survivors(Workspace& workspace, std::uint32_t candidates, std::uint32_t best)
    : workspace_(&workspace) {
    sort_best(workspace, candidates, best);
    std::uint32_t begin = 0;
    while (begin < candidates) {
        const double value = workspace.candidates[begin].value;
        const std::uint32_t most = begin < best ? best : begin + 1;
        std::uint32_t end = begin + 1;
        while (end < most && workspace.candidates[end].value == value) ++end;
        workspace.classes[count_++] = class_of(value, begin, end - begin, 0);
        begin = end;
    }
}

Survivors Survivors::of_classes(Workspace& workspace, std::uint32_t classes, RowClasses& rows) {
    Survivors survivors(workspace);
    survivors.count_ = classes;
    survivors.rows_ = &rows;
    return survivors;
}

bool Survivors::has_mixed() const {
    const auto all = classes();
    return std::any_of(all.begin(), all.end(), [](const EqualClass& each) { return each.is_mixed(); });
}

// The values that they had together are weighed one by one.
void Survivors::split(std::uint32_t place, std::uint32_t classes) {
    const std::uint32_t made = rows_->split(first_ + place, classes, first_ + count_);
    count_ = count_ - classes + made;
    if (weigher_.scale > 0.0) weigh_values(kept().subspan(place, made), weigher_);
}

// The best class has the value that others are weighed against.
void Survivors::weigh(double scale) {
    split_best(1);
    const Weigher weigher = {classes().front().value, scale};
    if (weigher.maximum == weigher_.maximum && weigher.scale == weigher_.scale) return;
    weigher_ = weigher;
    sums_mixed_ = false;
    total_.reset();
    weigh_values(kept(), weigher_);
}

void Survivors::split_best(std::uint32_t tokens) {
    std::uint32_t before = 0;
    std::uint32_t first = count_;
    std::uint32_t end = 0;
    for (std::uint32_t i = 0; i < count_ && before < tokens; ++i) {
        before += kept()[i].size;
        if (!kept()[i].is_mixed()) continue;
        first = std::min(first, i);
        end = i + 1;
    }
    if (first < end) split(first, end - first);
}

void Survivors::split_at(double value) {
    const auto all = classes();
    const auto found = std::find_if(all.begin(), all.end(), [&](const EqualClass& each) {
        return each.is_mixed() && each.least <= value && value <= each.value;
    });
    if (found != all.end()) split(static_cast<std::uint32_t>(found - all.begin()), 1);
}

std::uint32_t Survivors::tokens() const {
    return count_tokens(classes());
}

bool Survivors::are_few() const {
    constexpr std::uint32_t kFew = 4096;
    return tokens() <= std::min(kFew, workspace_->vocab / 16);
}

void Survivors::adjust(Step step) {
    Adjustments on = rows_->adjustments();
    note(on, step);
    *this = rows_->adjust(*this, on);
}

std::uint32_t Survivors::count_above(double value, bool or_equal) const {
    std::uint32_t count = 0;
    for (const EqualClass& each : classes()) {
        if (each.value > value || (or_equal && each.value == value)) count += each.size;
    }
    return count;
}

Mass Survivors::total() {
    if (!total_) total_ = sums_mixed_ || !has_mixed() ? sum_classes() : rows_->total(classes(), weigher_);
    return *total_;
}

// The total, where each class's own is needed too.
Mass Survivors::sum_classes() {
    if (!sums_mixed_ && has_mixed()) rows_->sum_mixed(kept(), weigher_);
    sums_mixed_ = true;
    Mass total = 0;
    for (const EqualClass& each : classes()) total += each.total();
    return total;
}

void Survivors::keep_first(std::uint32_t classes, std::uint32_t members_of_last) {
    count_ = classes;
    kept().back().size = members_of_last;
    total_.reset();
}

std::span<const ValueClass> Survivors::values() {
    const std::span<ValueClass> values = workspace_->value_classes.first(count_);
    std::transform(classes().begin(), classes().end(), values.begin(), [](const EqualClass& each) {
        return ValueClass{each.value, each.size};
    });
    return values;
}

void Survivors::filter(Step step, const proto::SamplingParams& params) {
    apply(step, params);
    total_.reset();
}

void Survivors::apply(Step step, const proto::SamplingParams& params) {
    switch (step) {
        case Step::top_n_sigma:
            return keep_n_sigma(params.top_n_sigma);
        case Step::min_p:
            return keep_min_p(params.min_p);
        case Step::top_k:
            return keep_top_k(static_cast<std::uint32_t>(params.top_k));
        case Step::top_p:
            return keep_top_p(params.top_p);
        case Step::typical_p:
            return keep_typical(params.typical_p);
        case Step::xtc:
            return drop_top(params.xtc_threshold);
        case Step::penalties:
        case Step::dry:
        case Step::temperature:
        case Step::end:
        case Step::count_:
            break;
    }
}

// Drops classes, the least ones first, while drops(value, weight) holds, but for the last one. Where it holds
// of a value it holds of smaller ones.
template <class Drops>
void Survivors::drop_least(Drops drops) {
    for (;;) {
        const EqualClass& least = kept().back();
        const bool all = drops(least.value, least.weight);
        if (all && count_ > 1) {
            --count_;
        } else if (!all && least.is_mixed() && drops(least.least, weigher_.weight(least.least))) {
            split(count_ - 1, 1);
        } else {
            return;
        }
    }
}

// Splits the mixed classes that reach this range. Returns whether a value lies in it.
bool Survivors::split_between(double low, double high) {
    // Together: each split is a pass over the row, and thousands of classes of values next to zero may
    // overlap the range.
    std::uint32_t first = count_;
    std::uint32_t end = 0;
    for (std::uint32_t i = 0; i < count_ && classes()[i].value >= low; ++i) {
        if (classes()[i].least > high || !classes()[i].is_mixed()) continue;
        first = std::min(first, i);
        end = i + 1;
    }
    if (first < end) split(first, end - first);
    const auto all = classes();
    return std::any_of(all.begin(), all.end(),
                       [&](const EqualClass& each) { return each.value >= low && each.value <= high; });
}

// A value within the bounds of the threshold is judged by the reference's own sum, for which all classes are
// split. Few rows have one.
void Survivors::keep_n_sigma(double n) {
    split_best(1);
    const double best = classes().front().value;
    Bounds sigma = bound_deviation();
    const bool is_open =
        sigma.low != sigma.high &&
        (!std::isfinite(sigma.high) || split_between(best - n * sigma.high, best - n * sigma.low));
    if (is_open) {
        split_best(tokens());
        sigma = bound_deviation();
    }
    drop_least([floor = best - n * sigma.high](double value, double /*weight*/) { return value < floor; });
}

void Survivors::keep_min_p(double min_p) {
    drop_least([min_p](double /*value*/, double weight) { return weight < min_p; });
}

void Survivors::keep_top_k(std::uint32_t k) {
    std::uint32_t before = 0;
    for (std::uint32_t i = 0; i < count_; ++i) {
        const bool last = before + kept()[i].size >= k;
        if (last && kept()[i].is_mixed()) split(i, 1);
        const std::uint32_t size = kept()[i].size;
        if (before + size >= k) return keep_first(i + 1, k - before);
        before += size;
    }
}

// The first ones whose mass together reaches the limit; nothing: all of them do not.
std::optional<Survivors::Prefix> Survivors::prefix_reaching(double limit) {
    Mass before = 0;
    for (std::uint32_t i = 0; i < count_; ++i) {
        const bool last = static_cast<double>(before + kept()[i].total()) >= limit;
        if (last && kept()[i].is_mixed()) split(i, 1);
        const EqualClass& each = classes()[i];
        const Mass all = before + each.total();
        if (static_cast<double>(all) >= limit)
            return Prefix{i + 1, members_while(each, before, [limit](double mass) { return mass < limit; })};
        before = all;
    }
    return std::nullopt;
}

void Survivors::keep_top_p(double top_p) {
    const auto prefix = prefix_reaching(top_p * static_cast<double>(sum_classes()));
    if (prefix) keep_first(prefix->classes, prefix->members_of_last);
}

bool Survivors::keep_top_p_of_row(double top_p, double least, double most) {
    if (!is_row_total(least, most)) return false;
    const auto prefix = prefix_reaching(top_p * (least * kMassUnit));
    if (!prefix || prefix != prefix_reaching(top_p * (most * kMassUnit))) return false;
    keep_first(prefix->classes, prefix->members_of_last);
    return true;
}

double Survivors::entropy() {
    EntropySums sums;
    if (has_mixed()) {
        sums = rows_->entropy_sums(classes(), weigher_);
    } else {
        for (const EqualClass& each : classes()) {
            sums.total += each.total();
            sums.products += EntropySums::product(each.mass, weigher_.exponent(each.value)) * each.size;
        }
    }
    total_ = sums.total;
    return entropy_of(sums);
}

// The distances of mixed classes are from the best value, in no particular order; the reference's are from
// the mean of the values, in canonical order.
Survivors::Bounds Survivors::bound_deviation() {
    if (!has_mixed()) {
        const double exact = deviation_of(values());
        return {exact, exact};
    }
    // What a sum may differ by from the one in another order, as a share of its terms' sizes.
    const double order_error = static_cast<double>(tokens() + 16) * 0x1p-53;
    const DistanceSums sums = rows_->sum_distances(classes());
    const double mean = sums.distances / sums.tokens;
    const double square = sums.squares / sums.tokens;
    const double variance = square - mean * mean;
    const double error = order_error * square;
    const double rounding = order_error * (std::abs(classes().front().value) + std::abs(mean));
    return {std::sqrt(std::max(0.0, variance - error)) - rounding, std::sqrt(variance + error) + rounding};
}

// Where the cut is if the tokens are taken in this order, as long as the mass before them is within the
// limit: in which class, and behind how many of its members.
Survivors::Cut Survivors::cut_at(std::span<const std::uint32_t> order, double limit) const {
    const auto within = [limit](double mass_before) { return mass_before <= limit; };
    Cut cut;
    Mass before = 0;
    for (; cut.place < order.size() && within(static_cast<double>(before)); ++cut.place) {
        const EqualClass& each = classes()[order[cut.place]];
        cut.members = each.is_mixed() ? each.size : members_while(each, before, within);
        before += each.total();
    }
    --cut.place;
    return cut;
}

// How many tokens have a mass of the limit or more: the first ones.
std::uint32_t Survivors::count_reaching(double limit) {
    std::uint32_t reaching = 0;
    for (std::uint32_t i = 0; i < count_; ++i) {
        const auto reaches = [&](double weight) {
            return static_cast<double>(mass_of_weight(weight)) >= limit;
        };
        if (!reaches(kept()[i].weight)) break;
        if (kept()[i].is_mixed() && !reaches(weigher_.weight(kept()[i].least))) split(i, 1);
        if (!reaches(kept()[i].weight)) break;
        reaching += kept()[i].size;
    }
    return reaching;
}

void Survivors::drop_top(double threshold) {
    const std::uint32_t above = count_reaching(threshold * static_cast<double>(total()));
    // All but the last that reaches the threshold.
    for (std::uint32_t dropping = above > 0 ? above - 1 : 0; dropping > 0;) {
        if (kept().front().is_mixed() && kept().front().size > dropping) split(0, 1);
        EqualClass& front = kept().front();
        const std::uint32_t some = std::min(dropping, front.size);
        front.begin += some;
        front.size -= some;
        dropping -= some;
        if (front.size == 0) {
            ++first_;
            --count_;
        }
    }
}

void Survivors::keep_surprise_up_to(double limit) {
    const Mass total = this->total();
    const auto surprises = [&](double /*value*/, double weight) {
        return surprise_of(mass_of_weight(weight), total) > limit;
    };
    drop_least(surprises);
    total_.reset();
    if (surprises(kept().front().value, kept().front().weight)) keep_first(1, 1);
}

bool Survivors::keep_surprise_of_row(double limit, double least, double most) {
    // Surprises are in bits: what a logarithm loses is far less.
    constexpr double kSlack = 1e-9;
    if (!is_row_total(least, most)) return false;
    const auto surprise_in = [](const EqualClass& each, double total) {
        return surprise_of(each.mass, static_cast<Mass>(total * kMassUnit));
    };
    std::uint32_t kept_classes = 0;
    while (kept_classes < count_ && surprise_in(classes()[kept_classes], most) <= limit - kSlack)
        ++kept_classes;
    const bool open = kept_classes < count_ && surprise_in(classes()[kept_classes], least) <= limit + kSlack;
    if (open) return false;
    if (kept_classes == 0) {
        keep_first(1, 1);
    } else {
        count_ = kept_classes;
        total_.reset();
    }
    return true;
}

std::uint32_t Survivors::flatten() const {
    if (rows_ != nullptr) return rows_->list_left(*this, 0, count_);
    std::uint32_t count = 0;
    for (const EqualClass& each : classes()) {
        for (std::uint32_t i = 0; i < each.size; ++i) workspace_->candidates[count++] = member(each, i);
    }
    return count;
}

}  // namespace croupier::sampler

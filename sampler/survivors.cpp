#include "sampler/survivors.h"

#include <algorithm>
#include <cstddef>

#include "sampler/canonical_order.h"
#include "sampler/formulas.h"

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

Survivors::Survivors(Workspace& workspace, std::uint32_t candidates, std::uint32_t best)
    : workspace_(&workspace) {
    sort_best(workspace, candidates, best);
    std::uint32_t begin = 0;
    while (begin < candidates) {
        const double value = workspace.candidates[begin].value;
        const std::uint32_t most = begin < best ? best : begin + 1;
        std::uint32_t end = begin + 1;
        while (end < most && workspace.candidates[end].value == value) ++end;
        workspace.classes[count_++] = {value, 0.0, 0, begin, end - begin};
        begin = end;
    }
}

Survivors Survivors::of_classes(Workspace& workspace, std::uint32_t classes) {
    Survivors survivors(workspace);
    survivors.count_ = classes;
    return survivors;
}

void Survivors::weigh(double scale) {
    const Weigher weigher = {classes().front().value, scale};
    if (weigher.maximum == weigher_.maximum && weigher.scale == weigher_.scale) return;
    weigher_ = weigher;
    for (EqualClass& each : kept()) {
        each.weight = weigher.weight(each.value);
        each.mass = mass_of_weight(each.weight);
    }
}

std::uint32_t Survivors::tokens() const {
    std::uint32_t tokens = 0;
    for (const EqualClass& each : classes()) tokens += each.size;
    return tokens;
}

Mass Survivors::total() const {
    Mass total = 0;
    for (const EqualClass& each : classes()) total += each.total();
    return total;
}

void Survivors::keep_first(std::uint32_t classes, std::uint32_t members_of_last) {
    count_ = classes;
    kept().back().size = members_of_last;
}

std::span<const ValueClass> Survivors::values() {
    const std::span<ValueClass> values = workspace_->value_classes.first(count_);
    std::transform(classes().begin(), classes().end(), values.begin(), [](const EqualClass& each) {
        return ValueClass{each.value, each.size};
    });
    return values;
}

void Survivors::filter(Step step, const proto::SamplingParams& params) {
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

void Survivors::keep_n_sigma(double n) {
    const double floor = classes().front().value - n * deviation_of(values());
    while (count_ > 1 && kept().back().value < floor) --count_;
}

void Survivors::keep_min_p(double min_p) {
    while (count_ > 1 && kept().back().weight < min_p) --count_;
}

void Survivors::keep_top_k(std::uint32_t k) {
    std::uint32_t before = 0;
    for (std::uint32_t i = 0; i < count_; ++i) {
        const std::uint32_t size = kept()[i].size;
        if (before + size >= k) return keep_first(i + 1, k - before);
        before += size;
    }
}

// The first ones whose mass together reaches the limit; nothing: all of them do not.
std::optional<Survivors::Prefix> Survivors::prefix_reaching(double limit) const {
    Mass before = 0;
    for (std::uint32_t i = 0; i < count_; ++i) {
        const EqualClass& each = classes()[i];
        const Mass all = before + each.total();
        if (static_cast<double>(all) >= limit)
            return Prefix{i + 1, members_while(each, before, [limit](double mass) { return mass < limit; })};
        before = all;
    }
    return std::nullopt;
}

void Survivors::keep_top_p(double top_p) {
    const auto prefix = prefix_reaching(top_p * static_cast<double>(total()));
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
    return entropy_of(values(), weigher_, total());
}

void Survivors::keep_typical(double typical_p) {
    const Mass total = this->total();
    const double log_of_total = log_total(total);
    const double entropy = this->entropy();
    const std::span<EqualClass> all = kept();
    const std::span<Candidate> shifts = workspace_->sort_buffer.first(count_);
    std::transform(all.begin(), all.end(), shifts.begin(), [&](const EqualClass& each) {
        return Candidate{typical_distance(weigher_.exponent(each.value), log_of_total, entropy), 0};
    });
    const std::span<std::uint32_t> order = workspace_->class_order.first(count_);
    order_valley(shifts, order);
    const double limit = typical_p * static_cast<double>(total);
    Mass before = 0;
    for (const std::uint32_t i : order) {
        const Mass mass = all[i].total();
        const auto within = [limit](double mass_before) { return mass_before <= limit; };
        const bool reached = within(static_cast<double>(before));
        all[i].size = reached ? members_while(all[i], before, within) : 0;
        before += mass;
    }
    const auto gone =
        std::remove_if(all.begin(), all.end(), [](const EqualClass& each) { return each.size == 0; });
    count_ = static_cast<std::uint32_t>(gone - all.begin());
}

void Survivors::drop_top(double threshold) {
    const double limit = threshold * static_cast<double>(total());
    std::uint32_t above = 0;
    for (const EqualClass& each : classes()) {
        if (static_cast<double>(each.mass) < limit) break;
        above += each.size;
    }
    // All but the last that reaches the threshold.
    for (std::uint32_t dropping = above > 0 ? above - 1 : 0; dropping > 0;) {
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
    const auto surprises = [&](const EqualClass& each) { return surprise_of(each.mass, total) > limit; };
    while (count_ > 1 && surprises(kept().back())) --count_;
    if (surprises(kept().front())) keep_first(1, 1);
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
    }
    return true;
}

std::uint32_t Survivors::flatten() const {
    std::uint32_t count = 0;
    for (const EqualClass& each : classes()) {
        for (std::uint32_t i = 0; i < each.size; ++i) workspace_->candidates[count++] = member(each, i);
    }
    return count;
}

}  // namespace croupier::sampler

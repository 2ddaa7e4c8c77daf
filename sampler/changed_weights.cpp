#include "sampler/changed_weights.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "proto/race.h"
#include "sampler/changed_tokens.h"
#include "sampler/row_mass.h"

namespace croupier::sampler {
namespace {

// Of each its value as it was written and as the adjustments leave it, both weighed. Rounded to floats are
// their exponents: values that were would be off by 2^-24 of themselves, and at a temperature of 0.01 their
// weights by a hundred times as much.
void weigh_all(const WeighedRow& row, std::span<ChangedToken> changed) {
    constexpr std::size_t kBatch = 64;
    const auto exponent = [&](double value) {
        return proto::race::entered((value - row.reference) * row.scale);
    };
    std::array<float, 2 * kBatch> exponents;
    std::array<float, 2 * kBatch> weights;
    for (std::size_t first = 0; first < changed.size(); first += kBatch) {
        const auto some = changed.subspan(first, std::min(kBatch, changed.size() - first));
        for (std::size_t i = 0; i < some.size(); ++i) {
            exponents[2 * i] = exponent(static_cast<double>(some[i].raw));
            exponents[2 * i + 1] = exponent(some[i].adjusted);
        }
        weigh_each(0.0, 1.0, std::span(exponents).first(2 * some.size()), weights);
        for (std::size_t i = 0; i < some.size(); ++i) {
            some[i].raw_weight = weights[2 * i];
            some[i].weight = weights[2 * i + 1];
        }
    }
}

// Of what it weighs, or can lose.
int exponent_of(const ChangedToken& token) {
    return static_cast<int>(std::bit_cast<std::uint32_t>(token.raw_weight) >> 23U);
}

// Down from the largest weights, the exponent with which they are so much together, and so many.
int exponent_to_ask(std::span<const ChangedToken> of, double weight, std::uint32_t count) {
    struct Of {
        double weight = 0.0;
        std::uint32_t count = 0;
    };
    std::array<Of, 256> exponents{};
    for (const ChangedToken& each : of) {
        Of& own = exponents[static_cast<std::size_t>(exponent_of(each))];
        own.weight += static_cast<double>(each.raw_weight);
        ++own.count;
    }
    int exponent = static_cast<int>(exponents.size()) - 1;
    for (Of all; exponent > 0; --exponent) {
        all.weight += exponents[static_cast<std::size_t>(exponent)].weight;
        all.count += exponents[static_cast<std::size_t>(exponent)].count;
        if (all.weight >= weight && all.count >= count) break;
    }
    return exponent;
}

}  // namespace

// Tokens that can end above where they stood are read, because how far above their block's largest entry they
// end is not known. Under a mask that the writers did not know, the row's own weight needs every block in any
// case.
ChangedWeights::Unread ChangedWeights::may_be_unread(bool reads_all) const {
    const LeanBlocks* lean = row_.row.lean;
    const bool some =
        !reads_all && lean != nullptr && lean->knows_under(row_.mask) && adjust_.lowers_only(on_);
    return {some, some && !adjust_.has_raising_bias()};
}

// Those that the mask hides are not among the row's sums, before or after.
bool ChangedWeights::list(bool reads_all) {
    if (adjust_.changes_nothing(on_)) return true;
    const Unread may = may_be_unread(reads_all);
    const std::span<ChangedToken> room = workspace_.changed;
    std::size_t count = 0;
    std::size_t unread_from = room.size();
    const auto visit = [&](std::uint32_t token, float raw, double adjusted) {
        if (adjust_.masked(token)) return;
        highest_ = std::max(highest_, adjusted);
        if (adjusted != static_cast<double>(raw)) room[count++] = {adjusted, raw, token, 0, 0};
    };
    // From the end of the room on: every token comes once.
    const auto leave_absent = [&](std::uint32_t token) {
        if (!is_absent(token)) return false;
        if (has_nothing(token)) return true;
        room[--unread_from] = {kNothing, row_.block_max[token / kBlock], token, 0, 0};
        return true;
    };
    visit_special_once(adjust_, on_, row_.row, workspace_, visit,
                       [&](std::uint32_t token) { return may.special && leave_absent(token); });
    if (adjust_.penalises(on_)) {
        if (may.plain) {
            for (const TokenCounts::Counted& each : set_absent_apart()) {
                const float value = row_.row.value_at(each.token);
                visit(each.token, value, adjust_.penalised_alone(each, value));
            }
        } else {
            visit_penalised_once(adjust_, row_.row, visit);
        }
    }
    changed_ = room.first(count);
    unread_ = room.subspan(unread_from);
    if ((highest_ - row_.reference) * row_.scale > kFarthestAbove) return false;
    weigh();
    return true;
}

void ChangedWeights::weigh() {
    weigh_all(row_, changed_);
    for (const ChangedToken& each : changed_) {
        change_ += static_cast<double>(each.weight) - static_cast<double>(each.raw_weight);
        moved_ += static_cast<double>(each.weight) + static_cast<double>(each.raw_weight);
    }
    weigh_all(row_, unread_);
    for (const ChangedToken& each : unread_) unread_loss_ += static_cast<double>(each.raw_weight);
    unread_loss_ *= 1.0 + kChangedError;
    unread_standing_ = unread_loss_;
    moved_ += 2.0 * unread_loss_;
}

// Those without a rule of their own, of blocks that are there. The others, most of a history, are weighed by
// their blocks' largest entries. Without a branch on what no processor could predict.
std::span<const TokenCounts::Counted> ChangedWeights::set_absent_apart() {
    constexpr std::size_t kBatch = 64;
    std::array<float, kBatch> bounds;
    std::array<float, kBatch> weights;
    std::size_t absent = 0;
    const auto take_in = [&] {
        weigh_each(row_.reference, row_.scale, std::span(bounds).first(absent), weights);
        for (std::size_t i = 0; i < absent; ++i) unread_loss_ += static_cast<double>(weights[i]);
        absent = 0;
    };
    const LeanBlocks& lean = *row_.row.lean;
    const bool some_special = adjust_.has_special();
    const std::span<TokenCounts::Counted> read = workspace_.counted;
    std::size_t count = 0;
    for (const TokenCounts::Counted& each : adjust_.state().distinct()) {
        if (some_special && adjust_.is_special(each.token)) continue;
        const std::uint32_t block = each.token / kBlock;
        const std::size_t there = lean.is_there(block) ? 1 : 0;
        __builtin_prefetch(row_.row.element_ahead(each.token));
        read[count] = each;
        count += there;
        bounds[absent] = row_.block_max[block];
        absent += has_nothing(each.token) ? 0 : 1 - there;
        if (absent == kBatch) take_in();
    }
    take_in();
    leaves_plain_ = true;
    return read.first(count);
}

// Penalties take the more from a value above 0 the larger it is; from one below, no more than 0 weighs. Of
// the largest entry of its block each keeps the rest, if it is above 0.
void ChangedWeights::bound_unread() {
    if (knows_losses_) return;
    knows_losses_ = true;
    if (leaves_plain_) list_unread_plain();
    weigh_all(row_, unread_);
    const std::array<float, 1> zero{};
    std::array<float, 1> zero_weight{};
    weigh_each(row_.reference, row_.scale, zero, zero_weight);
    unread_loss_ = 0.0;
    for (ChangedToken& each : unread_) {
        const float off = each.raw_weight * static_cast<float>(2.0 * kChangedError);
        const float lost = each.raw_weight - each.weight + off;
        each.raw_weight = std::min(each.raw_weight, std::max(lost, zero_weight[0]));
        unread_loss_ += static_cast<double>(each.raw_weight);
    }
    unread_loss_ *= 1.0 + kChangedError;
}

// Beside those that are listed already.
void ChangedWeights::list_unread_plain() {
    std::size_t unread_from = workspace_.changed.size() - unread_.size();
    for (const TokenCounts::Counted& each : adjust_.state().distinct()) {
        if (!is_absent(each.token) || has_nothing(each.token) || adjust_.is_special(each.token)) continue;
        const float most = row_.block_max[each.token / kBlock];
        const double left = most > 0.0F ? adjust_.penalised_alone(each, most) : kNothing;
        workspace_.changed[--unread_from] = {left, most, each.token, 0, 0};
    }
    unread_ = workspace_.changed.subspan(unread_from);
    leaves_plain_ = false;
}

// Most weigh next to nothing, so that few of them have to be read. But not so few that there would be many
// more tries. Of those whose weights have one exponent any is as good: to put a long history in order would
// take longer than all else that the decision does.
void ChangedWeights::ask_for_unread(double room) {
    constexpr double kPart = 0.25;  // what is read lowers the row's weight too
    bound_unread();
    if (unread_.empty()) return;  // as those of a whole row are
    const std::uint32_t asked_before = row_.row.asked();
    double left = unread_loss_ / (1.0 + kChangedError);
    const auto is_enough = [&] { return left <= room * kPart && row_.row.asked_enough(asked_before); };
    const auto ask_for = [&](const ChangedToken& each) {
        (void)row_.row.block(each.token / kBlock);
        left -= static_cast<double>(each.raw_weight);
    };
    const int last = exponent_to_ask(unread_, left - room * kPart, row_.row.lean->most_asked_at_once());
    for (const ChangedToken& each : unread_) {
        if (exponent_of(each) > last) ask_for(each);
    }
    for (const bool is_last : {true, false}) {
        for (const ChangedToken& each : unread_) {
            if (is_enough()) return;
            if (is_last ? exponent_of(each) == last : exponent_of(each) < last) ask_for(each);
        }
    }
}

}  // namespace croupier::sampler

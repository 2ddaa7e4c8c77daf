// How a request's adjustments change the weight of a row. If only part of the row is there, tokens in absent
// blocks are bounded by how much weight they can lose.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "sampler/adjuster.h"
#include "sampler/row_mass.h"
#include "sampler/row_sums.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

// What a changed token's weight is off, as a share of it: its exponent is rounded to a float first.
constexpr double kChangedError = 2.0 * kWeightError;

class ChangedWeights {
  public:
    ChangedWeights(const WeighedRow& row, const Adjuster& adjust, Adjustments on, Workspace& workspace)
        : row_(row), adjust_(adjust), on_(on), workspace_(workspace) {}

    // `reads_all`: what is absent is asked for, and nothing is left unread. False: one stands too far above
    // the row for its sums to mean anything beside it.
    bool list(bool reads_all);

    // Those that were read and moved.
    std::span<const ChangedToken> moved_tokens() const { return changed_; }
    // What these weigh more than they did.
    double change() const { return change_; }
    // The sum of what they weighed and what they weigh now; an unread one counts with the most that it can.
    double moved() const { return moved_; }
    // The unread ones take no more than this from the row's weight, and add nothing to it. None of them
    // stands, or stood, above the largest entry of its block.
    double unread() const { return unread_loss_; }
    bool left_unread() const { return unread_loss_ > 0.0; }
    // They may take more from what stands before a place, up to all that they weighed: a token that loses
    // little of its weight may still fall behind the place with all of it.
    double unread_standing() const { return unread_standing_; }
    // Of those that were read, as the adjustments leave them; -inf: of none.
    double highest() const { return highest_; }

    // Computes what the adjustments can take from each unread token, which costs as much again. Until then,
    // unread() assumes that they can lose all of their weight.
    void bound_unread();

    // Asks for unread ones, larger bounds before smaller ones by their binary exponents, until what is left
    // can take away no more than a part of `room`.
    void ask_for_unread(double room);

  private:
    // Tokens without a rule of their own, and those with one.
    struct Unread {
        bool plain;
        bool special;
    };
    Unread may_be_unread(bool reads_all) const;
    void weigh();
    bool is_absent(std::uint32_t token) const {
        return !row_.row.is_there(token / kBlock) && !row_.row.lean->is_named(token);
    }
    // None of its block weighs anything, and it cannot be asked for; or the mask hides it.
    bool has_nothing(std::uint32_t token) const {
        return adjust_.masked(token) || static_cast<double>(row_.block_max[token / kBlock]) == kNothing;
    }
    std::span<const TokenCounts::Counted> set_absent_apart();
    void list_unread_plain();
    static constexpr double kNothing = -std::numeric_limits<double>::infinity();

    const WeighedRow& row_;
    const Adjuster& adjust_;
    Adjustments on_;
    Workspace& workspace_;
    std::span<ChangedToken> changed_;
    // As if each stood as high as the largest entry of its block. Its `raw_weight` is what it can lose at
    // most: that entry's weight, or less once that is known.
    std::span<ChangedToken> unread_;
    bool leaves_plain_ = false;  // unread ones without a rule of their own, which are not listed
    bool knows_losses_ = false;  // bound_unread() has looked
    double change_ = 0.0;
    double moved_ = 0.0;
    double unread_loss_ = 0.0;
    double unread_standing_ = 0.0;
    double highest_ = kNothing;
};

}  // namespace croupier::sampler

// All tokens of a row by their values, adjusted: a filter over classes is a filter over the whole row,
// exactly, without a sort of it. A 16-bit row holds a few thousand different values, each of which is a
// class. Of a 32-bit row the values that share their upper 16 bits are one mixed class, until a filter has to
// tell them apart.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>

#include "sampler/adjuster.h"
#include "sampler/blocked_row.h"
#include "sampler/class_sums.h"
#include "sampler/request.h"
#include "sampler/survivors.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

// The first of these classes that does not lie above the value as a whole.
template <class Class>
typename std::span<Class>::iterator class_at(std::span<Class> classes, double value) {
    return std::lower_bound(classes.begin(), classes.end(), value,
                            [](const EqualClass& each, double of) { return each.least > of; });
}

class RowClasses {
  public:
    RowClasses(const BlockedRow& row, const Adjuster& adjust, Adjustments on, const Request& request,
               Workspace& workspace)
        : row_(row), adjust_(adjust), on_(on), request_(request), workspace_(workspace) {}
    RowClasses(const RowClasses&) = delete;
    RowClasses& operator=(const RowClasses&) = delete;
    ~RowClasses();

    // In canonical order; a class's members count from 0 in the order of their ids. At least one, where a
    // token is above -inf.
    Survivors list();

    // What was left of them where a step behind a filter adjusts it (late_changes.cpp): `on` are all
    // adjustments up to that step.
    Survivors adjust(const Survivors& left, Adjustments on);
    Adjustments adjustments() const { return on_; }

    // Whether a token of the row is one of those that were left of list().
    bool holds(const Survivors& left, const Candidate& candidate);
    // The same where later steps may have moved it.
    bool holds(const Survivors& left, std::uint32_t token) {
        return holds(left, Candidate{adjust_(token, row_.value_at(token), on_), token});
    }
    // Puts those that were left of some classes in the workspace's first candidates, in no particular order;
    // returns how many.
    std::uint32_t list_left(const Survivors& left, std::size_t first, std::size_t last);
    // All that were left, where values between those of two classes may have been dropped.
    std::uint32_t list_held(const Survivors& left);

    // For Survivors, of the workspace's first `count` classes (mixed_classes.cpp). Replaces `some` of them,
    // which are whole, by a class for each of their values; returns how many.
    std::uint32_t split(std::uint32_t place, std::uint32_t some, std::uint32_t count);
    // Sums the masses of the mixed ones of these classes, which are all of the row from one value to another.
    void sum_mixed(std::span<EqualClass> classes, const Weigher& weigher);
    // The mass of all of them together, for which the mixed ones need not be summed.
    Mass total(std::span<const EqualClass> classes, const Weigher& weigher) const;
    // The mass of all by adaptive-p's logits.
    Mass total_replaced(std::span<const EqualClass> classes, const AdaptiveLogit& logit,
                        double largest) const;
    EntropySums entropy_sums(std::span<const EqualClass> classes, const Weigher& weigher) const;
    // In double, in no particular order: the sums of their distances from the best.
    DistanceSums sum_distances(std::span<const EqualClass> classes) const;

  private:
    void count_codes();
    void list_changed();
    template <class Visit>
    void visit_counted(Visit visit);
    void list_exact();
    void list_mixed();
    // Of a class that is kept in part: its value, and the kept members' first and last id.
    struct KeptPart {
        double value;
        std::uint32_t first;
        std::uint32_t last;
    };
    const KeptPart& kept_part(const EqualClass& of);
    // What a filter dropped of a class in part, before a step adjusted the rest.
    struct Cut {
        KeptPart kept;
        std::uint32_t dropped;  // of those that did not move
    };
    std::span<Cut> cuts() { return std::span(cuts_).first(cut_); }
    std::span<const Cut> cuts() const { return std::span(cuts_).first(cut_); }
    bool is_moved(std::uint32_t token) const {
        return (workspace_.moved[token / 64] >> (token % 64) & 1U) != 0;
    }
    bool stands(double value, std::uint32_t token) const;
    void note_moved(const ChangedToken& token);
    void note_cut(const EqualClass& of);
    static void forget_dropped(double value, std::uint32_t token, std::span<Cut> cuts);
    double move(const Survivors& left, const Candidate& from, double to, std::span<Cut> cuts);
    void move_changed(const Survivors& left, Adjustments on, std::span<Cut> new_cuts);
    std::uint32_t merge_moved(std::uint32_t count);
    std::span<std::uint32_t> list_members(double value);
    std::uint32_t gather(std::span<const EqualClass> run);
    std::span<const ChangedToken> changed() const { return workspace_.changed.first(changed_); }
    RowRange range_of(double least, double most) const;
    template <class Change>
    void visit_moved(std::span<const EqualClass> classes, Change change) const;

    const BlockedRow& row_;
    const Adjuster& adjust_;
    Adjustments on_;
    const Request& request_;
    Workspace& workspace_;
    std::uint32_t changed_ = 0;  // of the workspace's changed tokens: those that are not as they were written
    std::uint32_t classes_ = 0;
    std::uint32_t codes_ = 0;               // of a 32-bit row
    std::array<KeptPart, 4> kept_parts_{};  // those that were asked about last: few classes are cut
    std::uint32_t known_parts_ = 0;
    // Of the tokens that stand as they were written, those of these values are left, but for the cuts.
    double lowest_ = -std::numeric_limits<double>::infinity();
    double highest_ = std::numeric_limits<double>::infinity();
    std::array<Cut, 4> cuts_{};  // two steps adjust, and each may find a cut at either end
    std::uint32_t cut_ = 0;
};

}  // namespace croupier::sampler

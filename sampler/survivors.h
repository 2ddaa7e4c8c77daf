// The filters of docs/semantics.md over classes of equal values: what a filter decides, it decides for a
// value, and within a class by the number of members before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "proto/sampling.h"
#include "sampler/formulas.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

class RowClasses;

class Survivors {
  public:
    // Takes the workspace's first `candidates`, sorts and groups them. At least one.
    Survivors(Workspace& workspace, std::uint32_t candidates)
        : Survivors(workspace, candidates, candidates) {}
    // The same of the `best` of them, at least one. Those behind are classes of one token each in any order,
    // which do for sums over all and for no filter.
    Survivors(Workspace& workspace, std::uint32_t candidates, std::uint32_t best);

    // Classes that the workspace has already, in canonical order; their members are the caller's to find.
    // Mixed ones are split as filters ask for it.
    static Survivors of_classes(Workspace& workspace, std::uint32_t classes, RowClasses& rows);

    // Whether the members of classes are to be looked for in the row.
    bool is_of_row() const { return rows_ != nullptr; }
    // Whether so few are left that they are sooner listed than counted or asked about one by one: where
    // filters left the best out, a race opens most blocks before it meets one of them.
    bool are_few() const;
    // What a step of the order makes of those that are left of a row.
    void adjust(proto::Step step);

    // Weighs every class at 1 / temperature, the best class being the heaviest. The masses of mixed classes
    // are summed when a filter needs them.
    void weigh(double scale);
    double scale() const { return weigher_.scale; }
    const Weigher& weigher() const { return weigher_; }

    std::uint32_t tokens() const;
    Mass total();
    // How many are above this value, or also equal to it: that of a class that is not mixed.
    std::uint32_t count_above(double value, bool or_equal) const;
    std::span<const EqualClass> classes() const { return workspace_->classes.subspan(first_, count_); }

    // By one filter of the order, at the scale that was weighed last.
    void filter(proto::Step step, const proto::SamplingParams& params);
    void keep_top_k(std::uint32_t k);
    // A top-p where these are the best of a row that weighs between `least` and `most` times the best;
    // false: which are kept is left open.
    [[nodiscard]] bool keep_top_p_of_row(double top_p, double least, double most);
    void keep_surprise_up_to(double limit);  // mirostat v2
    // As keep_top_p_of_row().
    [[nodiscard]] bool keep_surprise_of_row(double limit, double least, double most);
    double entropy();
    // Splits mixed classes until the first ones, which are not mixed, have so many tokens, or all of them.
    void split_best(std::uint32_t tokens);
    // Splits the class of this value.
    void split_at(double value);

    Candidate member(const EqualClass& of, std::uint32_t index) const {
        return workspace_->candidates[of.begin + index];
    }
    // Puts the survivors back, one by one, as the workspace's first candidates; returns how many.
    std::uint32_t flatten() const;

  private:
    explicit Survivors(Workspace& workspace) : workspace_(&workspace) {}

    void apply(proto::Step step, const proto::SamplingParams& params);
    void keep_n_sigma(double n);
    void keep_min_p(double min_p);
    void keep_top_p(double top_p);
    void keep_typical(double typical_p);
    void drop_top(double threshold);  // XTC

    bool has_mixed() const;
    Mass sum_classes();
    void split(std::uint32_t place, std::uint32_t classes);
    template <class Drops>
    void drop_least(Drops drops);
    std::uint32_t count_reaching(double limit);
    struct Cut {
        std::size_t place = 0;
        std::uint32_t members = 0;
    };
    Cut cut_at(std::span<const std::uint32_t> order, double limit) const;
    std::span<const std::uint32_t> order_by_distance(double log_of_total, double entropy);
    struct Bounds {
        double low;
        double high;
    };
    Bounds bound_deviation();
    bool split_between(double low, double high);
    double largest_distance(const EqualClass& of, double log_of_total, double entropy) const;
    bool split_for_typical(std::span<const std::uint32_t> order, std::uint32_t last, double log_of_total,
                           double entropy);

    std::span<EqualClass> kept() { return workspace_->classes.subspan(first_, count_); }
    std::span<const ValueClass> values();
    // So many classes, and of the last of them so many members.
    struct Prefix {
        std::uint32_t classes;
        std::uint32_t members_of_last;

        bool operator==(const Prefix&) const = default;
    };
    std::optional<Prefix> prefix_reaching(double limit);
    void keep_first(std::uint32_t classes, std::uint32_t members_of_last);

    Workspace* workspace_;
    std::uint32_t first_ = 0;
    std::uint32_t count_ = 0;
    Weigher weigher_{0.0, 0.0};
    RowClasses* rows_ = nullptr;  // of classes that may be mixed
    bool sums_mixed_ = false;     // mixed classes have their masses
    std::optional<Mass> total_;
};

}  // namespace croupier::sampler

// The nucleus of a 16-bit row by how often each value stands in it: a row has a few thousand values, however
// many tokens survive, so that nothing is sorted and one exponential is taken for each value.
#pragma once

#include <cstdint>
#include <optional>

#include "sampler/blocked_row.h"
#include "sampler/chain.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

class ValueCounts {
  public:
    // `scale`: at which top_p weighs.
    ValueCounts(const BlockedRow& row, Chain& chain, std::uint32_t random, double scale, Workspace& workspace)
        : row_(row), chain_(chain), random_(random), scale_(scale), workspace_(workspace) {}

    // Where the row's logits count as they are and top_p is the chain's only filter.
    static bool apply_to(const BlockedRow& row, const proto::SamplingParams& params);

    // What the chain leaves is drawn from by mass. Nothing: the row changed under us.
    std::optional<Candidate> draw();

  private:
    // A class and the number of one of its members.
    struct Place {
        double value;
        std::uint32_t code;
        std::uint32_t index;
        bool operator==(const Place&) const = default;
    };

    std::optional<Candidate> draw_from_head(std::uint32_t blocks);
    std::optional<Candidate> draw_from_all();
    void list_classes(std::uint32_t best_rank, std::uint32_t worst_rank);
    void lay_classes();
    std::optional<Place> place_with(Mass outside);
    std::optional<Place> place_within(const TotalMass& outside);
    std::optional<Place> place_in_head();
    TotalMass outside_by_chords() const;
    TotalMass outside_by_weight() const;

    const BlockedRow& row_;
    Chain& chain_;
    std::uint32_t random_;
    double scale_;
    Workspace& workspace_;
    double maximum_ = 0.0;
    std::span<const CountedValue> listed_;  // those that were counted, in canonical order
    std::optional<Survivors> all_;          // the same as classes, while their masses are in use
};

}  // namespace croupier::sampler

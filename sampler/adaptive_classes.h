// Adaptive-p's distribution over classes: each value's logit is replaced by one that falls with the distance
// of its probability from the aim, so that the best tokens lie on both sides of one value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sampler/formulas.h"
#include "sampler/row_classes.h"
#include "sampler/survivors.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

class AdaptiveClasses {
  public:
    // `survivors` are weighed as `logit` weighs them.
    AdaptiveClasses(RowClasses& rows, const Survivors& survivors, const AdaptiveLogit& logit,
                    Workspace& workspace);

    // The first `wanted` by their replaced logits, then by id, with these logits: the workspace's first
    // candidates. At least one is wanted. Empty only of a row that is overwritten meanwhile.
    std::span<const Candidate> first(std::uint32_t wanted);
    // How many have a larger logit than this one, or also the same.
    std::uint32_t count_above(double logit, bool or_equal);
    // What all weigh against the largest logit.
    Mass total(double largest) const;

  private:
    // What the replaced logits of a class lie between.
    struct Span {
        double low;
        double high;
        bool around = false;  // the aim: it reaches to both sides of it
    };
    Span span_of(std::size_t place) const;
    std::uint32_t count_in(std::size_t begin, std::size_t end, double logit, bool or_equal);
    std::uint32_t replace_run(std::size_t begin, std::size_t end);
    std::span<const EqualClass> classes() const { return survivors_.classes(); }

    RowClasses& rows_;
    const Survivors& survivors_;
    const AdaptiveLogit& logit_;
    Workspace& workspace_;
    std::size_t centre_;  // the first class below the aim
};

}  // namespace croupier::sampler

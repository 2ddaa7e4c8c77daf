// The nucleus of a 16-bit row by how often each value stands in it: a row has a few thousand values, however
// many tokens survive, so that nothing is sorted and one exponential is taken for each value.
#pragma once

#include <cstdint>
#include <optional>

#include "sampler/blocked_row.h"
#include "sampler/chain.h"
#include "sampler/vocabulary_order.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

class ValueCounts {
  public:
    ValueCounts(const BlockedRow& row, Workspace& workspace) : row_(row), workspace_(workspace) {}

    // Where the row's logits count as they are, its ids stand in order and top_p is the chain's only filter.
    static bool apply_to(const BlockedRow& row, const proto::SamplingParams& params,
                         const VocabularyOrder& order);

    // What the chain leaves is drawn from by mass. Nothing: the row changed under us.
    std::optional<Candidate> draw(Chain& chain, std::uint32_t random);

  private:
    void count();
    std::uint32_t make_classes();
    std::optional<Candidate> find(const EqualClass& of, std::uint32_t index) const;

    const BlockedRow& row_;
    Workspace& workspace_;
};

}  // namespace croupier::sampler

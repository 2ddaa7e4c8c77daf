// How often each token stands in the history: counted before a decision's penalties, forgotten after them.
#pragma once

#include <cstdint>
#include <span>

#include "sampler/vocabulary_order.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

class History {
  public:
    History(std::span<const std::int32_t> prompt, std::span<const std::int32_t> output,
            const VocabularyOrder& order, Workspace& workspace);
    ~History();
    History(const History&) = delete;
    History& operator=(const History&) = delete;

    // False if a token of the history stands nowhere in the vocabulary: the counts are then incomplete.
    bool valid() const { return valid_; }

    // Positions of all tokens of prompt and output, each once.
    std::span<const std::uint32_t> positions() const { return workspace_.touched.first(distinct_); }
    std::uint32_t outputs_at(std::uint32_t position) const { return workspace_.counts[position] & ~kSeen; }

  private:
    static constexpr std::uint32_t kSeen = 1U << 31U;  // tells a token of the prompt from one never seen

    bool count(std::span<const std::int32_t> tokens, std::uint32_t weight, const VocabularyOrder& order);

    Workspace& workspace_;
    std::uint32_t distinct_ = 0;
    bool valid_;
};

}  // namespace croupier::sampler

// Whether a token completes one of its sequence's stop strings or its JSON value: derived from the sequence's
// log, and begun anew by any sampler that decides its next token.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "text/sequence_text.h"

namespace croupier::daemon {

class StopSearch {
  public:
    // The table must outlive it. Throws TextError for stop strings that cannot be.
    StopSearch(const text::TokenTable& table, const text::TextRules& rules,
               std::span<const std::int32_t> prompt)
        : text_(table, rules, prompt) {}

    // The log has kept at least so many of the outputs followed.
    void keep(std::size_t outputs) { kept_ = std::min(kept_, outputs); }
    // Appends what the log has more and goes back where it has less. `most`: how many tokens to append. True:
    // these were all.
    bool follow(std::span<const std::int32_t> output, std::size_t most = kAll);
    // Of the token that follows the log, as it was followed: the decision's flag, or 0.
    std::uint16_t completed_by(std::int32_t token);

    std::size_t tokens() const { return std::min(kept_, text_.tokens()); }
    std::size_t bytes() const { return sizeof(*this) + text_.allocated() + scratch_.capacity(); }

  private:
    static constexpr std::size_t kAll = ~std::size_t{0};

    text::SequenceText text_;
    std::size_t kept_ = kAll;
    std::string scratch_;
};

}  // namespace croupier::daemon

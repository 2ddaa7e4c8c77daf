// Which token stands where: vocabulary order is the order in which the ranks' slices lie.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "sampler/row_view.h"

namespace croupier::sampler {

// The view must be consistent (sampler/row_reader.h). The hotness orders lie in shared memory: each id is
// checked whenever it is read, and a position or token without a partner is nullopt.
class VocabularyOrder {
  public:
    // `known_positions` remembers, from decision to decision, where each token stood.
    VocabularyOrder(const RowView& view, std::span<std::uint32_t> known_positions);

    bool is_identity() const { return identity_; }
    std::optional<std::uint32_t> token_at(std::uint32_t position) const {
        return identity_ ? position : permuted_token_at(position);
    }
    std::optional<std::uint32_t> position_of(std::int32_t token) const {
        if (static_cast<std::uint32_t>(token) >= view_.vocab) return std::nullopt;
        return identity_ ? static_cast<std::uint32_t>(token) : permuted_position_of(token);
    }

  private:
    const Slice& slice_with(std::uint32_t index) const;
    std::optional<std::uint32_t> permuted_token_at(std::uint32_t position) const;
    std::optional<std::uint32_t> permuted_position_of(std::int32_t token) const;
    void learn(const Slice& slice) const;

    const RowView& view_;
    std::span<std::uint32_t> known_positions_;
    bool identity_;
};

}  // namespace croupier::sampler

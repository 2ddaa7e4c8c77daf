#include "sampler/vocabulary_order.h"

#include <algorithm>

namespace croupier::sampler {
namespace {

bool holds(const Slice& slice, std::uint32_t index) {
    return index - slice.first_id < slice.entries;
}

}  // namespace

VocabularyOrder::VocabularyOrder(const RowView& view, std::span<std::uint32_t> known_positions)
    : view_(view),
      known_positions_(known_positions),
      identity_(std::all_of(view.slices.begin(), view.slices.end(),
                            [](const Slice& slice) { return slice.ids == nullptr; })) {}

// A slice holds positions and ids of the same range, so that one search serves both.
const Slice& VocabularyOrder::slice_with(std::uint32_t index) const {
    return *std::find_if(view_.slices.begin(), view_.slices.end(),
                         [index](const Slice& slice) { return holds(slice, index); });
}

std::optional<std::uint32_t> VocabularyOrder::permuted_token_at(std::uint32_t position) const {
    const Slice& slice = slice_with(position);
    if (slice.ids == nullptr) return position;
    const auto token = static_cast<std::uint32_t>(slice.ids[position - slice.first_id]);
    if (!holds(slice, token)) return std::nullopt;
    return token;
}

// What was remembered may be another session's: it counts only if the order itself confirms it.
std::optional<std::uint32_t> VocabularyOrder::permuted_position_of(std::int32_t token) const {
    const auto id = static_cast<std::uint32_t>(token);
    const Slice& slice = slice_with(id);
    if (slice.ids == nullptr) return id;
    const auto confirmed = [&] {
        const std::uint32_t position = known_positions_[id];
        return holds(slice, position) && slice.ids[position - slice.first_id] == token;
    };
    if (!confirmed()) {
        learn(slice);
        if (!confirmed()) return std::nullopt;
    }
    return known_positions_[id];
}

void VocabularyOrder::learn(const Slice& slice) const {
    for (std::uint32_t i = 0; i < slice.entries; ++i) {
        const auto token = static_cast<std::uint32_t>(slice.ids[i]);
        if (holds(slice, token)) known_positions_[token] = slice.first_id + i;
    }
}

}  // namespace croupier::sampler

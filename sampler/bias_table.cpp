#include "sampler/bias_table.h"

#include <algorithm>
#include <bit>

#include "proto/sampling.h"

namespace croupier::sampler {

static_assert(proto::kMaxBias < 0xFFFF, "a bias's place, plus one, must fit the table");
static_assert(kBiasSlots / 2 >= proto::kMaxBias, "half of the slots must be empty");

BiasTable::BiasTable(std::span<const proto::TokenBias> bias, Workspace& workspace)
    : bias_(bias),
      slots_(workspace.bias_slots.first(bias.empty() ? 0 : std::bit_ceil(2 * bias.size()))),
      next_(workspace.bias_next.first(bias.size())) {
    std::fill(slots_.begin(), slots_.end(), std::uint16_t{0});
    // From the last on: each stands before those that follow it.
    for (std::size_t i = bias.size(); i-- > 0;) {
        std::uint16_t& first = slots_[slot_of(bias[i].token)];
        next_[i] = first;
        first = static_cast<std::uint16_t>(i + 1);
    }
}

// Where the token's first bias is named, or an empty slot. Multiplicative hashing: the product's high bits
// depend on all bits of the token.
std::size_t BiasTable::slot_of(std::int32_t token) const {
    const std::size_t mask = slots_.size() - 1;
    const auto hash = static_cast<std::uint32_t>(token) * 0x9E3779B97F4A7C15U >> 32U;
    for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
        if (slots_[at] == 0 || bias_[slots_[at] - 1U].token == token) return at;
    }
}

double BiasTable::biased(std::uint32_t token, double value) const {
    if (slots_.empty()) return value;
    std::uint16_t place = slots_[slot_of(static_cast<std::int32_t>(token))];
    for (; place != 0; place = next_[place - 1U]) value += static_cast<double>(bias_[place - 1U].bias);
    return value;
}

}  // namespace croupier::sampler

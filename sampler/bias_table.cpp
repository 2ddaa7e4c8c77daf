#include "sampler/bias_table.h"

#include <cstddef>

namespace croupier::sampler {

static_assert(proto::kMaxBias < 0xFFFF, "a bias's place, plus one, must fit the table");

BiasTable::BiasTable(std::span<const proto::TokenBias> bias, Workspace& workspace)
    : bias_(bias), first_(workspace.first_bias), next_(workspace.next_bias) {
    // From the last on: each stands before those that follow it.
    for (std::size_t i = bias.size(); i-- > 0;) {
        std::uint16_t& first = first_[static_cast<std::uint32_t>(bias[i].token)];
        next_[i] = first;
        first = static_cast<std::uint16_t>(i + 1);
    }
}

BiasTable::~BiasTable() {
    for (const proto::TokenBias& each : bias_) first_[static_cast<std::uint32_t>(each.token)] = 0;
}

}  // namespace croupier::sampler

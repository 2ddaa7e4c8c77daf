// A request's biases by token: one that is asked about costs the same beside 4,096 others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "proto/sampling.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

class BiasTable {
  public:
    BiasTable(std::span<const proto::TokenBias> bias, Workspace& workspace);

    // With all biases of the token, in the request's order: sums of doubles depend on it.
    double biased(std::uint32_t token, double value) const;

  private:
    std::size_t slot_of(std::int32_t token) const;

    std::span<const proto::TokenBias> bias_;
    std::span<std::uint16_t> slots_;  // 1 + the place of a token's first bias; 0: empty. A power of two
    std::span<std::uint16_t> next_;   // of each bias: the same for the next of its token
};

}  // namespace croupier::sampler

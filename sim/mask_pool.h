// Grammar masks for simulated requests: a few masks from loose to strict, chosen by request and position.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/request_plan.h"

namespace croupier::sim {

class MaskPool {
  public:
    MaskPool(std::uint64_t seed, std::uint32_t vocab);

    // Empty for a request without a grammar.
    std::span<const std::uint32_t> row(const Request& request, std::uint32_t position) const;

  private:
    std::uint64_t seed_;
    std::vector<std::vector<std::uint32_t>> masks_;
};

}  // namespace croupier::sim

// The progress line of a run, which is overwritten and never wider than the terminal.
#pragma once

#include <cstdint>
#include <string>

#include "sim/world.h"

namespace croupier::sim {

class LiveView {
  public:
    // Off with --json, or without a terminal unless --demo is given.
    explicit LiveView(const World& world);

    void show(std::uint32_t kills);
    // Removes the line before the summary.
    void finish();

  private:
    std::string line(std::uint32_t kills) const;

    const World& world_;
    bool on_;
    bool terminal_;
    std::uint64_t shown_ns_ = 0;
};

}  // namespace croupier::sim

// The line that shows a run while it goes on, painted over and never wider than the terminal.
#pragma once

#include <cstdint>
#include <string>

#include "sim/world.h"

namespace croupier::sim {

class LiveView {
  public:
    // Off with --json, or where nobody looks: no terminal and no --demo.
    explicit LiveView(const World& world);

    void show(std::uint32_t kills);
    // Removes the line: a summary follows.
    void finish();

  private:
    std::string line(std::uint32_t kills) const;

    const World& world_;
    bool on_;
    bool terminal_;
    std::uint64_t shown_ns_ = 0;
};

}  // namespace croupier::sim

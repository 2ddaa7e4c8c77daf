// Fills a mapping's page tables beside whoever uses it. Pages that exist already still cost each process a
// fault at its first touch, and a column's tiles lie on as many pages as there are tiles.
#pragma once

#include <thread>

#include "shm/file.h"

namespace croupier::shm {

class Prefault {
  public:
    // The mapping must outlive this object.
    // Its first bytes: behind them lies what is not allocated yet, and would be by a touch.
    Prefault(const Mapping& mapping, std::uint64_t bytes);

  private:
    std::jthread thread_;
};

}  // namespace croupier::shm

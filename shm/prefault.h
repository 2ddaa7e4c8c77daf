// Fills a mapping's page tables beside whoever uses it. Pages that exist already still cost each process a
// fault at its first touch, and a column's tiles lie on as many pages as there are tiles.
#pragma once

#include <thread>

#include "shm/file.h"

namespace croupier::shm {

class Prefault {
  public:
    // The mapping must outlive this object.
    explicit Prefault(const Mapping& mapping);

  private:
    std::jthread thread_;
};

}  // namespace croupier::shm

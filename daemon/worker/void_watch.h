// Which columns of a step that waits for logits may have become void meanwhile.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/worker/checked_step.h"
#include "shm/segment.h"

namespace croupier::daemon {

class VoidWatch {
  public:
    explicit VoidWatch(std::uint32_t slots) : slots_(slots) {}

    // The columns to look at; none as long as nothing has happened that makes one void. The caller strikes
    // out those of which it knows that they are due, or answered.
    std::vector<std::uint32_t>& look(const shm::Segment& segment, const CheckedStep& step);

  private:
    struct Slot {
        std::uint64_t step = ~0ULL;
        std::uint32_t revisions = 0;  // of the session's sequences, as far as it was looked
        std::uint32_t bell = 0;       // of steps decided, likewise
        std::vector<std::uint32_t> columns;
    };

    std::vector<Slot> slots_;
    std::vector<std::uint32_t> none_;
};

}  // namespace croupier::daemon

// What ranks have sent of one column of a step, as its decision begins, and whether it is still that when the
// decision is made.
#pragma once

#include <cstdint>

#include "daemon/worker/checked_step.h"
#include "daemon/worker/sent_columns.h"
#include "shm/block_requests.h"
#include "shm/segment.h"

namespace croupier::daemon {

class SentColumn {
  public:
    SentColumn(const shm::Segment& segment, const CheckedStep& step, std::uint32_t column);

    // Blocks of it were asked for that are not all there.
    bool awaits_blocks() const;
    // All that ranks send of it at first.
    bool is_there();
    // Some of it was withdrawn since the decision began, or another writer has come: the decision is void.
    // Whole rows that were complete stay as they are.
    bool is_over();
    void ask(std::span<const std::uint64_t> blocks) const { requests().ask(column_, blocks); }

  private:
    shm::BlockRequests requests() const { return {segment_, step_.step, epochs_}; }
    bool is_lean() const { return segment_.geometry().is_lean(); }

    const shm::Segment& segment_;
    const CheckedStep& step_;
    std::uint32_t column_;
    std::uint32_t epochs_;  // of the ranks' writers
    SentColumns sent_;
};

}  // namespace croupier::daemon

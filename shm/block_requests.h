// A lean step's block requests: samplers ask for blocks of a column that were not sent, each rank's writer
// lays them at their places in the slice and says so (docs/decisions/0020-a-lean-transport.md).
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "proto/request_cell.h"
#include "shm/segment.h"

namespace croupier::shm {

class BlockRequests {
  public:
    // `epochs`: of the writers whose slices the step has (writer_epochs()).
    BlockRequests(const Segment& segment, std::uint64_t step, std::uint32_t epochs)
        : segment_(&segment), step_(step), slot_(segment.slot_of(step)), epochs_(epochs) {}

    // Asked for, and not yet by all ranks answered: nobody can decide the column meanwhile.
    bool awaited(std::uint32_t column) const;
    // A bit for each block of the row that stands in the slices by now; empty: none was asked for.
    std::span<const std::uint64_t> placed(std::uint32_t column) const;
    // By the owner of the column's claim, of a column that is not awaited.
    void ask(std::uint32_t column, std::span<const std::uint64_t> blocks) const;

    // A writer's side. How often was asked in the slot so far, of any step.
    std::uint64_t posted() const;
    // The word of a block request that the rank has not answered; 0: there is none.
    std::uint64_t unanswered(std::uint32_t column, std::uint32_t rank) const;
    std::span<const std::uint64_t> bits(std::uint32_t column) const;
    std::atomic<std::uint64_t>& answer(std::uint32_t column, std::uint32_t rank) const;

  private:
    proto::RequestWord latest(std::uint32_t column) const;
    proto::RequestWord asked(std::uint32_t column) const;
    std::uint64_t* words(std::uint32_t column) const;
    void begin_cell(std::uint32_t column) const;

    const Segment* segment_;
    std::uint64_t step_;
    std::uint32_t slot_;
    std::uint32_t epochs_;
};

// Of so many blocks each, and of none beyond them.
std::vector<std::uint64_t> all_bits(std::uint32_t blocks);

// The epochs of the ranks' present writers, added: the same before and after a decision, and what it read
// there after it, means that nobody laid it anew meanwhile.
std::uint32_t writer_epochs(const Segment& segment);

}  // namespace croupier::shm

// When a step's logits are there: all of them, or one column's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "daemon/worker/checked_step.h"
#include "proto/lean_order.h"
#include "proto/plane.h"
#include "shm/block_requests.h"
#include "shm/segment.h"

namespace croupier::daemon {

// Every rank has published its slice. Randoms that the step may bring are not asked for.
bool slices_complete(const shm::Segment& segment, const CheckedStep& step);
bool logits_complete(const shm::Segment& segment, const CheckedStep& step);

// The first sampler that sees the logits complete says when. Returns when this one did.
std::uint64_t note_logits_ready(const shm::Segment& segment, const CheckedStep& step,
                                proto::SamplerEntry& entry);

// When the step's logits were complete; 0: they are not, and the column came before others of its step. To be
// asked before the commit, which may be the step's last: the slot is another step's then.
std::uint64_t ready_since(const shm::Segment& segment, const CheckedStep& step, proto::SamplerEntry& entry);

// What is asked for of a lean step's rows: an answer takes less than a sleep, unless its writer is gone.
bool answers_come(const shm::Segment& segment, std::uint32_t slot);

// The columns of a lean step that all ranks have sent.
class SentColumns {
  public:
    SentColumns(const shm::Segment& segment, const CheckedStep& step) : segment_(&segment), step_(&step) {}

    // At what is there by now: more come. Nothing is, before the first look.
    void look();
    // A bit for each part that is there.
    std::uint32_t parts() const { return parts_; }
    bool has(std::uint32_t column) const { return order_ && (parts_ >> part_of(column) & 1U) != 0; }

  private:
    std::uint32_t part_of(std::uint32_t column) const {
        return step_->windows ? part_among_windows(column) : order_->part_at(order_->place_of(column));
    }
    std::uint32_t part_among_windows(std::uint32_t column) const;

    const shm::Segment* segment_;
    const CheckedStep* step_;
    std::uint32_t parts_ = 0;
    // Of the number of columns alone: made at the first look that finds a part, and kept.
    std::optional<proto::LeanOrder> order_;
};

// One column as its decision begins, and whether it is still that when the decision is made.
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

// The columns of a lean step that all ranks have sent, while others may still be on their way.
#pragma once

#include <cstdint>
#include <optional>

#include "daemon/worker/checked_step.h"
#include "proto/lean_order.h"
#include "shm/segment.h"

namespace croupier::daemon {

class SentColumns {
  public:
    SentColumns(const shm::Segment& segment, const CheckedStep& step) : segment_(&segment), step_(&step) {}

    // At what is there by now: more come. Nothing is, before the first look.
    void look();
    // A bit for each part that is there.
    std::uint32_t parts() const { return parts_; }
    bool has(std::uint32_t column) const {
        return order_ && (parts_ >> order_->part_at(order_->place_of(column)) & 1U) != 0;
    }

  private:
    const shm::Segment* segment_;
    const CheckedStep* step_;
    std::uint32_t parts_ = 0;
    // Of the number of columns alone: made at the first look that finds a part, and kept.
    std::optional<proto::LeanOrder> order_;
};

}  // namespace croupier::daemon

// The columns of a lean step that all ranks have sent, while others may still be on their way.
#pragma once

#include <cstdint>
#include <optional>

#include "daemon/checked_step.h"
#include "proto/lean_order.h"
#include "shm/segment.h"

namespace croupier::daemon {

class SentColumns {
  public:
    // As of now: more come.
    SentColumns(const shm::Segment& segment, const CheckedStep& step);

    bool any() const { return parts_ != 0; }
    // A bit for each part that is there.
    std::uint32_t parts() const { return parts_; }
    bool has(std::uint32_t column) const {
        return order_ && (parts_ >> order_->part_at(order_->place_of(column)) & 1U) != 0;
    }

  private:
    std::uint32_t parts_ = 0;
    std::optional<proto::LeanOrder> order_;
};

}  // namespace croupier::daemon

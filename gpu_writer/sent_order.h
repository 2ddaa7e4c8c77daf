// The order in which a lean step's columns are sent, as its record has it (proto/lean_order.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "proto/lean_order.h"
#include "proto/schedule_slot.h"
#include "shm/segment.h"

namespace croupier::gpu_writer {

class SentOrder {
  public:
    using Place = proto::WindowOrder::Place;

    explicit SentOrder(std::uint32_t max_batch) : rows_(max_batch), places_(max_batch) {}

    // Of a step whose columns are these.
    void read(const proto::StoredArray<const proto::ScheduleColumn>& columns, bool windows);

    std::span<const Place> places() const { return std::span(places_).first(columns_); }
    // The parts before this one have a stamp.
    std::uint32_t last_part() const { return last_part_; }

  private:
    std::vector<std::uint16_t> rows_;
    std::vector<Place> places_;
    std::uint32_t columns_ = 0;
    std::uint32_t last_part_ = 0;
};

}  // namespace croupier::gpu_writer

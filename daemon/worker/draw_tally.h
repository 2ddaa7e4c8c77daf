// What a sampler counts of its draws during its share of a step: added to the session's counters once,
// because all samplers share their lines.
#pragma once

#include <array>
#include <cstdint>

#include "proto/segment_header.h"
#include "sampler/workspace.h"

namespace croupier::daemon {

class DrawTally {
  public:
    // `read_early`: the row was read before the decision.
    void add(const sampler::Answer& answer, std::uint32_t hot_choice, bool read_early, std::uint64_t ns);
    // Of a column, from its step's logits to the start of its decision.
    void add_delay(std::uint64_t ns) { delay_ns_ += ns; }
    void give_to(proto::SegmentHeader& header) const;

  private:
    struct Cost {
        std::uint64_t draws = 0;
        std::uint64_t ns = 0;
    };
    std::uint64_t delay_ns_ = 0;
    std::uint64_t hot_ = 0;
    std::uint64_t tail_ = 0;
    std::uint64_t corrected_ = 0;
    std::uint64_t tiles_read_ = 0;
    std::uint64_t tiles_skipped_ = 0;
    std::uint64_t asked_left_open_ = 0;
    std::uint64_t mirostat_left_open_ = 0;
    std::uint64_t proposals_left_open_ = 0;
    std::array<Cost, proto::kHotChoices> costs_;
};

}  // namespace croupier::daemon

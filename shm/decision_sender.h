// The decided steps of a session as StepDecisions messages, in order. The daemon sends them to a local
// client, and the relay sends them to a scheduler on another host.
#pragma once

#include <cstdint>

#include "proto/wire.h"
#include "shm/segment.h"

namespace croupier::shm {

class DecisionSender {
  public:
    // Begins with the oldest step that the session's client has not taken.
    explicit DecisionSender(const Segment& segment)
        : next_step_(segment.header().taken.load(std::memory_order_acquire)) {}

    // Whether the next step is decided.
    bool has_next(const Segment& segment);
    // Writes the next step into `builder` as message number `request`. False: it is not decided yet.
    bool pack(const Segment& segment, std::uint64_t request, flatbuffers::FlatBufferBuilder& builder);
    // The message that pack() wrote was sent. Without this call, pack() writes the same step again.
    void advance() { ++next_step_; }

  private:
    std::uint64_t next_step_;
};

}  // namespace croupier::shm

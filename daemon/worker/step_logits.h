// When a step's logits are there.
#pragma once

#include <cstdint>

#include "daemon/worker/checked_step.h"
#include "proto/plane.h"
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

}  // namespace croupier::daemon

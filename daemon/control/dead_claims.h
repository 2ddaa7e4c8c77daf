// Who follows dead processes: what these had claimed in the steps that are in flight, and the generation
// after theirs.
#pragma once

#include <cstdint>
#include <span>

#include "proto/plane.h"
#include "shm/segment.h"

namespace croupier::daemon {

// A sampler is dead and reaped: its columns are suspected, in all sessions that it decided for. `at`: the
// column that it prepared, if it died of that.
void reopen_claims(std::span<const shm::Segment* const> sessions, std::uint32_t dead_incarnation,
                   const proto::PreparedColumn& at);

// A daemon or a stand-in is dead, and its samplers with it: how many columns are free again.
std::uint32_t reopen_all_claims(const shm::Segment& session);

// This process decides for the session from now on, with samplers that lock it.
void begin_generation(proto::SegmentHeader& header);

}  // namespace croupier::daemon

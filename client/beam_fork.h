// Carries a step of a beam search out in a session: which sequences are forked, lengthened and finished.
#pragma once

#include <cstdint>
#include <span>

#include "client/beam_search.h"
#include "client/schedule_place.h"

namespace croupier::client {

// croupier_beam_fork(). Fails without having changed anything, unless memory is short or the place goes.
shm::Result<bool> fork_beams(SchedulePlace& place, const BeamSearch& search, std::span<std::uint64_t> uids);

}  // namespace croupier::client

// Carries a step of a beam search out in a session: which sequences are forked, lengthened and finished.
#pragma once

#include <cstdint>
#include <span>

#include "client/beam_search.h"
#include "shm/error.h"

namespace croupier::client {

class AttachedSession;

// croupier_beam_fork(). Fails without having changed anything, unless memory is short or the session goes.
shm::Result<bool> fork_beams(AttachedSession& session, const BeamSearch& search,
                             std::span<std::uint64_t> uids);

}  // namespace croupier::client

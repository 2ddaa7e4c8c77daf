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

// All samplers of a session are dead: how many columns are free again.
std::uint32_t reopen_all_claims(const shm::Segment& session);

// This process decides for the session from now on.
void begin_generation(proto::SegmentHeader& header);

enum class Succession {
    done,           // this process decides for the session
    held,           // another process answers for it
    samplers_live,  // this process answers for it; what its predecessor's samplers still store must not meet
                    // what others decide
    ended           // the session is over
};
struct SucceededSession {
    Succession outcome = Succession::held;
    std::uint32_t freed = 0;  // half-decided columns that are decided again
};
// A daemon and a stand-in take over a session whose daemon is dead in the same way.
SucceededSession succeed(shm::Segment& session);

}  // namespace croupier::daemon

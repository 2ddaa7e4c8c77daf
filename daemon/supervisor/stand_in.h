// Decides for one session whose daemon is gone, until a daemon is back: started beside an engine, by the
// engine.
#pragma once

#include <cstdint>

namespace croupier::daemon {

struct StandInOptions {
    int segment_fd = -1;         // inherited: a path would be seen by every user
    int used_by_fd = -1;         // PrivateUse's; -1: it is beside no private daemon
    std::uint32_t samplers = 0;  // 0: half of the cores that this process may use
    std::uint32_t heartbeat_timeout_ms = 10000;
};

// Returns when the session or its client has ended, or at SIGTERM, with 0; with 2 where it cannot stand in
// for this session, now or later; else with 1.
int run_stand_in(const StandInOptions& options);

}  // namespace croupier::daemon

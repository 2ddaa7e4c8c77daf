// What the tests of lean steps do to an engine's daemon, and to the order of its blocks.
#pragma once

#include <sys/types.h>

#include <csignal>

#include "testing/daemon_process.h"
#include "testing/small_engine.h"

namespace croupier::testing {

// For numbers of blocks that 37 does not divide.
inline void order_blocks(EngineShape& shape) {
    const std::uint32_t blocks = proto::blocks_of(shape.vocab);
    for (std::uint32_t i = 0; i < blocks; ++i) shape.order.push_back(i * 37 % blocks);
}

// Of each three rounds a sampler dies in two, and the daemon in one.
inline void kill_in_round(DaemonProcess& daemon, std::uint32_t round) {
    if (round % 3 == 2) {
        daemon.kill_now();
        daemon.start();
        return;
    }
    const pid_t sampler = daemon.sampler_pid(0);
    if (sampler > 0) ::kill(sampler, SIGKILL);
}

}  // namespace croupier::testing

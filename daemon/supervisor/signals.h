// Signals and timers as descriptors, for the supervisor's one poll.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "shm/file.h"

namespace croupier::daemon {

// Blocks SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGCHLD in this thread and those that it starts.
shm::Result<shm::FileDescriptor> open_signals();
std::vector<int> read_signals(const shm::FileDescriptor& signals);
// SIGTERM and SIGINT.
bool is_stop(int signal);
// One has come that is not read yet.
bool stop_is_pending();

shm::Result<shm::FileDescriptor> open_timer(std::chrono::milliseconds period);
// Inherited by the samplers, who write to it when a step whose decisions go over ZMQ is complete.
shm::Result<shm::FileDescriptor> open_inherited_event();
// Likewise, for what is made by threads of this process.
shm::Result<shm::FileDescriptor> open_event();
void clear(const shm::FileDescriptor& counter);

}  // namespace croupier::daemon

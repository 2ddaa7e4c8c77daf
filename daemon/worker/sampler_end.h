// How a sampler process ends: with who started it, and when it is told to.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <string>

namespace croupier::daemon {

// First in the process. `starter` is the process that started it.
void end_as_samplers_do(pid_t starter);
// What the starter sends, because a service manager or a shell sends SIGTERM to a whole group.
constexpr int kEndSampler = SIGUSR2;
// It has come: the sampler ends between two columns.
bool sampler_is_told_to_end();

// From a wait status: "was ended by signal 9 (Killed)".
std::string described_end(int status);

}  // namespace croupier::daemon

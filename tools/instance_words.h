// What commands say of a daemon that they look at.
#pragma once

#include <sys/types.h>

#include <string>

#include "shm/error.h"

namespace croupier::tools {

// Why an instance cannot be looked at, and what to do about it.
std::string cannot_look_at(const std::string& instance, const shm::Error& error);

// By a signal, so that it does nothing until SIGCONT. False for a process that is no croupierd.
bool daemon_is_stopped(pid_t pid);

}  // namespace croupier::tools

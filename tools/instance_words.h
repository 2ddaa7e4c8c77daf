// Messages about a daemon that a command inspects.
#pragma once

#include <sys/types.h>

#include <string>

#include "shm/error.h"

namespace croupier::tools {

// Why the instance cannot be inspected, and what to do about it.
std::string inspection_error(const std::string& instance, const shm::Error& error);

// Whether the process was stopped by a signal and waits for SIGCONT. False if it is not croupierd.
bool daemon_is_stopped(pid_t pid);

}  // namespace croupier::tools

// croupierd's first process: the one loop that owns sessions, samplers, sockets and signals.
#pragma once

#include <string>

#include "config/config.h"

namespace croupier::daemon {

// Runs until SIGTERM or SIGINT has drained everything. The exit status. `named` is the file that was named on
// the command line, empty where none was: SIGHUP reads it again.
// `used_by_fd`: PrivateUse's, of a daemon that also ends when no engine uses it any more; -1: it serves on.
int run_supervisor(const config::Config& config, const std::string& named, int used_by_fd);

}  // namespace croupier::daemon

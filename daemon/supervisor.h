// croupierd's first process: the one loop that owns sessions, samplers, sockets and signals.
#pragma once

#include <string>

#include "config/config.h"

namespace croupier::daemon {

// Runs until SIGTERM or SIGINT has drained everything. The exit status.
int run_supervisor(const config::Config& config, const std::string& config_path);

}  // namespace croupier::daemon

// The configuration of the croupierd that a simulation starts for itself.
#pragma once

#include <string>

#include "tools/own_daemon/own_daemon.h"
#include "tools/sim/options.h"

namespace croupier::tools::sim {

OwnDaemonOptions daemon_options(const SimOptions& options, const std::string& instance);

}  // namespace croupier::tools::sim

// The configuration of the croupierd that a simulation starts.
#pragma once

#include <string>

#include "sim/options.h"
#include "testing/own_daemon.h"

namespace croupier::sim {

testing::OwnDaemonOptions daemon_options(const SimOptions& options, const std::string& instance);

}  // namespace croupier::sim

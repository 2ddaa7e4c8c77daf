// `croupier sim`: an engine without GPUs that serves requests and verifies every decision.
#pragma once

#include "sim/options.h"

namespace croupier::sim {

// Runs the simulated engine; 0 when every decision was verified and nothing was lost, doubled or left behind.
int run_sim(const SimOptions& options);

// The same by a command line; a wrong one is explained.
int run_command(int argc, char** argv);

}  // namespace croupier::sim

// `croupier sim`: an engine without GPUs that serves requests and verifies every decision.
#pragma once

#include "sim/options.h"

namespace croupier::sim {

// Runs the simulated engine. Returns 0 if verification passed and no decision or file was lost, duplicated or
// left behind.
int run_sim(const SimOptions& options);

// Parses the command line and runs. Reports an invalid command line.
int run_command(int argc, char** argv);

}  // namespace croupier::sim

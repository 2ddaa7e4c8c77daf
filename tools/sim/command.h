// `croupier sim`: an engine without GPUs that serves requests and verifies every decision.
#pragma once

#include "tools/sim/options.h"

namespace CLI {
class App;
}

namespace croupier::tools {

// Runs the simulated engine; 0 when every decision was verified and nothing was lost, doubled or left behind.
int run_sim(const SimOptions& options);

// `exit_code` is set when the command line asks for `sim` and the run is over.
void add_sim_command(CLI::App& app, int& exit_code);

}  // namespace croupier::tools

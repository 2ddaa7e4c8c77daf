// `croupier trace`: records steps and columns in a file for a trace viewer.
#pragma once

namespace CLI {
class App;
}

namespace croupier::tools {

void add_trace_command(CLI::App& app, int& status);

}  // namespace croupier::tools

// `croupier status`, `croupier ping` and `croupier cleanup`: read-only attachment to an instance, alive or
// dead.
#pragma once

namespace CLI {
class App;
}

namespace croupier::tools {

void add_status_commands(CLI::App& app, int& status);

}  // namespace croupier::tools

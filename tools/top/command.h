// `croupier top` and `croupier stat`: what an instance does now, and what of it is slow.
#pragma once

namespace CLI {
class App;
}

namespace croupier::tools {

void add_top_command(CLI::App& app, int& status);

}  // namespace croupier::tools

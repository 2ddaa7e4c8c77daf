#pragma once

namespace CLI {
class App;
}

namespace croupier::tools {

void add_plan_command(CLI::App& app, int& status);

}  // namespace croupier::tools

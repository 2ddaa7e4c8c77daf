// `croupier decide`: reads requests and writes decisions, one JSON object per line.
#pragma once

namespace CLI {
class App;
}

namespace croupier::tools {

void add_decide_command(CLI::App& app, int& status);

}  // namespace croupier::tools

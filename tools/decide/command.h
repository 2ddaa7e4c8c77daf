// `croupier decide`: requests in, decisions out, a JSON object a line.
#pragma once

namespace CLI {
class App;
}

namespace croupier::tools {

void add_decide_command(CLI::App& app, int& status);

}  // namespace croupier::tools

// `croupier explain`: shows step by step why a token was chosen.
#pragma once

namespace CLI {
class App;
}

namespace croupier::tools {

void add_explain_command(CLI::App& app, int& status);

}  // namespace croupier::tools

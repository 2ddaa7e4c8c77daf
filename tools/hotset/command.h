// `croupier hotset`: builds the file of a model's hotness order from token traces, and shows one.
#pragma once

namespace CLI {
class App;
}

namespace croupier::tools {

void add_hotset_commands(CLI::App& app, int& status);

}  // namespace croupier::tools

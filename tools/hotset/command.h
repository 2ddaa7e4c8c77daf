// `croupier hotset`: builds and shows hotness files, and measures sizes of hot sets.
#pragma once

namespace CLI {
class App;
}

namespace croupier::tools {

void add_hotset_commands(CLI::App& app, int& status);

}  // namespace croupier::tools

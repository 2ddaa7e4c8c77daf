// `croupier bench windows`: what rows of windows cost beside rows of plain steps.
#pragma once

namespace CLI {
class App;
}

namespace croupier::bench {

void add_windows_bench(CLI::App& bench, int& status);

}  // namespace croupier::bench

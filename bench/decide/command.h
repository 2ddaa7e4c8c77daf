#pragma once

namespace CLI {
class App;
}

namespace croupier::bench {

// `bench` is the command that it belongs under.
void add_decide_bench(CLI::App& bench, int& status);

}  // namespace croupier::bench

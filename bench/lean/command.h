#pragma once

namespace CLI {
class App;
}

namespace croupier::bench {

// `bench` is the command that it belongs under.
void add_lean_bench(CLI::App& bench);

}  // namespace croupier::bench

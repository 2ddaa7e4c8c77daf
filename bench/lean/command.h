#pragma once

namespace CLI {
class App;
}

namespace croupier::bench {

// Adds the command to `bench`.
void add_lean_bench(CLI::App& bench);

}  // namespace croupier::bench

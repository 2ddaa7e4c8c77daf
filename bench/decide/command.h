#pragma once

namespace CLI {
class App;
}

namespace croupier::bench {

// Adds the command to `bench`.
void add_decide_bench(CLI::App& bench, int& status);

}  // namespace croupier::bench

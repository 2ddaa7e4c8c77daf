#pragma once

namespace CLI {
class App;
}

namespace croupier::bench {

// Adds the command to `bench`.
void add_writer_bench(CLI::App& bench);

}  // namespace croupier::bench

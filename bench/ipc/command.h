// `croupier bench`: measurements whose answers are ratios of one run.
#pragma once

namespace CLI {
class App;
}

namespace croupier::bench {

// `bench` is the command that it belongs under.
void add_ipc_bench(CLI::App& bench, int& status);

}  // namespace croupier::bench

// `croupier bench ipc`: the latency of a decision, compared with a bare ring and with ZMQ.
#pragma once

namespace CLI {
class App;
}

namespace croupier::bench {

// Adds the command to `bench`.
void add_ipc_bench(CLI::App& bench, int& status);

}  // namespace croupier::bench

// `croupier bench step`: measures how much one slow request delays a step.
#pragma once

namespace CLI {
class App;
}

namespace croupier::bench {

void add_step_bench(CLI::App& bench, int& status);

}  // namespace croupier::bench

// croupier bench step: how much later a whole step is for one slow request in it.
#pragma once

namespace CLI {
class App;
}

namespace croupier::bench {

void add_step_bench(CLI::App& bench, int& status);

}  // namespace croupier::bench

// `croupier bench controller`: compares an adaptive hot set with fixed ones.
#pragma once

namespace CLI {
class App;
}

namespace croupier::bench {

void add_controller_bench(CLI::App& bench, int& status);

}  // namespace croupier::bench

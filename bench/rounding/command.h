// `croupier bench rounding`: measures how many tokens change if logits change a little.
#pragma once

namespace CLI {
class App;
}

namespace croupier::bench {

void add_rounding_bench(CLI::App& bench, int& status);

}  // namespace croupier::bench

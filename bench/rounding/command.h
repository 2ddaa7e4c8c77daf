// croupier bench rounding: how many tokens change when the logits move a little.
#pragma once

namespace CLI {
class App;
}

namespace croupier::bench {

void add_rounding_bench(CLI::App& bench, int& status);

}  // namespace croupier::bench

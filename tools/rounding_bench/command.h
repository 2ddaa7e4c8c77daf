// croupier bench rounding: how many tokens change when the logits move a little.
#pragma once

namespace CLI {
class App;
}

namespace croupier::tools {

void add_rounding_bench(CLI::App& bench, int& status);

}  // namespace croupier::tools

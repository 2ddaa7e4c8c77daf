// `croupier bench text`: measures what a token's text and stop strings cost.
#pragma once

namespace CLI {
class App;
}

namespace croupier::bench {

void add_text_bench(CLI::App& bench, int& status);

}  // namespace croupier::bench

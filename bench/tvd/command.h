// `croupier bench tvd`: checks that draws follow the exact distribution.
#pragma once

namespace CLI {
class App;
}

namespace croupier::bench {

void add_tvd_bench(CLI::App& bench, int& status);

}  // namespace croupier::bench

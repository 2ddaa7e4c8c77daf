// croupier bench tvd: whether tokens are drawn by the distribution that they ought to be drawn by.
#pragma once

namespace CLI {
class App;
}

namespace croupier::bench {

void add_tvd_bench(CLI::App& bench, int& status);

}  // namespace croupier::bench

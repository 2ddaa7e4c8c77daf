// croupier bench shvs: the SIMPLE paper's ablation and its sizing model, beside what Croupier does instead.
#pragma once

namespace CLI {
class App;
}

namespace croupier::bench {

void add_shvs_bench(CLI::App& bench, int& status);

}  // namespace croupier::bench

// `croupier bench shvs`: the SIMPLE paper's ablation and sizing model, compared with Croupier.
#pragma once

namespace CLI {
class App;
}

namespace croupier::bench {

void add_shvs_bench(CLI::App& bench, int& status);

}  // namespace croupier::bench

// `croupier bench`: measurements whose answers are ratios of one run.
#pragma once

namespace CLI {
class App;
}

namespace croupier::tools {

void add_bench_commands(CLI::App& app, int& status);

}  // namespace croupier::tools

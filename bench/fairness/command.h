// `croupier bench fairness`: measures how long a small session waits for a large one.
#pragma once

#include <CLI/CLI.hpp>

namespace croupier::bench {

void add_fairness_bench(CLI::App& bench, int& status);

}  // namespace croupier::bench

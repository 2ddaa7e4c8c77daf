// `croupier bench fairness`: measures how long a session waits for a neighbour.
#pragma once

#include <CLI/CLI.hpp>

namespace croupier::bench {

void add_fairness_bench(CLI::App& bench, int& status);

}  // namespace croupier::bench

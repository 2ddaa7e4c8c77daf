// `croupier bench fairness`: what a small session waits for a large one beside it.
#pragma once

#include <CLI/CLI.hpp>

namespace croupier::bench {

void add_fairness_bench(CLI::App& bench, int& status);

}  // namespace croupier::bench

// `croupier bench fan_out`: compares fan-out of records with a bare ZMQ PUB/SUB.
#pragma once

#include <CLI/CLI.hpp>

namespace croupier::bench {

void add_fan_out_bench(CLI::App& bench, int& status);

}  // namespace croupier::bench

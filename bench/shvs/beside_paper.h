// Compares the paper's literal algorithm with Croupier's generators on the same requests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "command_line/progress.h"
#include "measurement/bench_rows.h"

namespace croupier::bench {

struct BesidePaperSize {
    std::uint32_t rounds;
    std::uint32_t history;
    std::uint32_t paper_hot;  // the paper's hot set
    std::uint32_t hot;        // that of `rng: shvs`
};

struct Way {
    std::string name;
    std::vector<double> rounds_us;  // mean of each round
};

struct PaperBeside {
    std::string request;
    std::string what;
    double accepted = 0.0;  // share of the paper's draws from the hot set
    std::vector<Way> ways;  // the paper's algorithm first
};

std::vector<PaperBeside> run_beside_paper(const BesidePaperSize& size,
                                          const measurement::BenchRows& hot_first,
                                          command_line::Progress& progress);

}  // namespace croupier::bench

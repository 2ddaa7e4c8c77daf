// `croupier hotset size`: finds the fastest size of a hot set, by the model and by measurement.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hot_sets/sizing.h"
#include "measurement/hot_draws.h"

namespace croupier::tools {

struct SizeOptions {
    std::vector<std::string> rows;
    std::string hot;
    std::uint32_t vocab = 151936;
    double temperature = 0.8;
    std::uint32_t rounds = 100;
    std::vector<std::uint32_t> sizes;  // empty: sizes_to_try()
    bool json = false;
    std::string save;
    std::string page;
};

struct SizeResults {
    SizeOptions options;
    std::uint32_t rows = 0;
    std::vector<measurement::HotDraws> draws;  // by size
    measurement::HotDraws own_choice;          // each row chooses its own blocks
    std::vector<hot_sets::SizedCost> grid;
    hot_sets::AffineFit hot_path;
    double proposal_us = 0.0;
    hot_sets::ExpectedCost expected;
    hot_sets::BestSize best;
    hot_sets::BestSize paper_best;  // the choice by equation 10 of the paper
    std::size_t fastest = 0;

    double throughput_of_best() const { return grid[fastest].mean_us / grid[best.place].mean_us; }
};

SizeResults measure_sizes(const SizeOptions& options);

std::string size_table(const SizeResults& results);
std::string size_json(const SizeResults& results);
std::string size_page(const SizeResults& results);

}  // namespace croupier::tools

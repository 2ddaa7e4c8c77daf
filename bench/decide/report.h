// Prints results of `croupier bench decide` as a table, Markdown or JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/decide/case_times.h"

namespace croupier::bench {

struct Measured {
    std::string name;
    std::string what;
    double temperature;
    std::uint32_t history;
    proto::Dtype dtype;
    std::string ranks;
    double read_us = 0.0;  // p50 of a plain read of such a row
    CaseTimes times;
};

struct DecideReport {
    std::uint32_t vocab;
    std::uint32_t rows;
    std::uint32_t rounds;
    std::vector<Measured> all;
};

void print_json(const DecideReport& report);
void print_table(const DecideReport& report);
void print_markdown(const DecideReport& report);

}  // namespace croupier::bench

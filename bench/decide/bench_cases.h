// The cases of `croupier bench decide` and `croupier bench step`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/sampling.h"

namespace croupier::bench {

// What a grammar leaves: a few ids, as where a value's type is fixed, or half of all, as inside a string.
enum class CaseMask : std::uint8_t { none, few, half };

struct BenchCase {
    std::string name;
    std::string what;  // for people
    proto::SamplingParams params;
    CaseMask mask = CaseMask::none;
    bool biased = false;       // some ids are lifted
    std::uint32_t listed = 0;  // so many ids are allowed alone
    bool prepared = false;     // its first arrivals are there, as where a sampler had to wait for the row
};

// What is measured where nobody asks for more. All but `logprobs20` ask for no log-prob.
std::vector<BenchCase> bench_cases();
// These, each filter as the only and first one, alone and with what may stand beside it, and each generator.
std::vector<BenchCase> all_bench_cases();
// Of all, those with these names in this order; "all" stands for all, an empty list for bench_cases().
// Throws with the names that there are.
std::vector<BenchCase> chosen_cases(const std::vector<std::string>& names);

}  // namespace croupier::bench

// The cases of `croupier bench decide` and `croupier bench step`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/sampling.h"

namespace croupier::bench {

// The ids that a grammar allows: a few, as for a fixed type of value, or half of all, as inside a string.
enum class CaseMask : std::uint8_t { none, few, half };

struct BenchCase {
    std::string name;
    std::string what;  // description
    proto::SamplingParams params;
    CaseMask mask = CaseMask::none;
    bool biased = false;       // some ids have a bias
    std::uint32_t listed = 0;  // if not 0, only this many ids are allowed
    bool prepared = false;  // first arrivals are computed in advance, as by a sampler that waits for the row
};

// The default cases. Only `logprobs20` asks for log-probs.
std::vector<BenchCase> bench_cases();
// The default cases, each filter alone and in combinations, and each generator.
std::vector<BenchCase> all_bench_cases();
// The cases with these names, in this order; "all" means all cases, an empty list bench_cases(). Throws
// std::runtime_error with the allowed names.
std::vector<BenchCase> chosen_cases(const std::vector<std::string>& names);

}  // namespace croupier::bench

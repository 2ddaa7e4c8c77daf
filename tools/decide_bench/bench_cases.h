// The cases of `croupier bench decide`.
#pragma once

#include <string>
#include <vector>

#include "proto/sampling.h"

namespace croupier::tools {

struct BenchCase {
    std::string name;
    std::string what;  // for people
    proto::SamplingParams params;
};

// All but `logprobs20` ask for no log-prob.
std::vector<BenchCase> bench_cases();

}  // namespace croupier::tools

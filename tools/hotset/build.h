// `croupier hotset build`: creates a hotness file from token traces.
#pragma once

#include <string>
#include <vector>

#include "tools/hotset/trace.h"

namespace croupier::tools {

struct BuildOptions {
    std::vector<std::string> traces;
    std::vector<double> weights;  // one for each trace, or none: all 1
    TracedModel model;
    double smoothing = 0.0;
    std::string output;
    bool json = false;
};

// Prints a summary to standard output. Throws RequestError.
void build_hotness(const BuildOptions& options);

}  // namespace croupier::tools

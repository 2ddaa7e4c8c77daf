// `croupier hotset build`: token traces in, the file of a hotness order out.
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

// Says what it wrote on standard output. Throws RequestError.
void build_hotness(const BuildOptions& options);

}  // namespace croupier::tools

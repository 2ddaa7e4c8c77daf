// Computes from rows what hot sets of every size cover, and the expected number of proposals per draw.
#pragma once

#include <cstdint>
#include <vector>

#include "measurement/bench_rows.h"

namespace croupier::tools {

// Means over the rows, indexed by the number of hot blocks.
struct HotMass {
    std::vector<double> alpha;      // share of the mass in the hot set
    std::vector<double> proposals;  // sum of the bounds divided by the mass: 1 / probability of acceptance
};

HotMass hot_mass_of(const measurement::BenchRows& rows, double temperature);

}  // namespace croupier::tools

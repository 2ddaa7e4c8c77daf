// What hot sets of every size cover of a row, and how many proposals a draw then needs: from the rows alone.
#pragma once

#include <cstdint>
#include <vector>

#include "measurement/bench_rows.h"

namespace croupier::tools {

// Means over the rows, by the number of hot blocks from none to all.
struct HotMass {
    std::vector<double> alpha;      // the hot set's share of the mass
    std::vector<double> proposals;  // all bounds' mass over the true mass: 1 / the chance of an acceptance
};

HotMass hot_mass_of(const measurement::BenchRows& rows, double temperature);

}  // namespace croupier::tools

// Two sessions of one daemon: a small one that is timed, and a large one that gives the samplers all they can
// do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace croupier::bench {

struct Neighbours {
    std::string croupierd;  // empty: beside this program
    std::uint32_t samplers = 1;
    std::uint32_t vocab = 32000;
    std::uint32_t columns = 1024;  // of the large one's steps
    std::uint32_t slots = 8;       // of them in flight
    std::uint32_t steps = 1000;    // of the small one, each way
    bool dearest = false;          // the large one's columns cost as much as limits allow
};

struct StepTimes {
    std::vector<std::uint64_t> alone_ns;
    std::vector<std::uint64_t> beside_ns;
    std::uint64_t large_columns = 0;  // that were decided meanwhile
};

// A step's time: from its last tile to its decision.
StepTimes time_neighbours(const Neighbours& options);

}  // namespace croupier::bench

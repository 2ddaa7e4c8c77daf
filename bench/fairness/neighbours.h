// Two sessions of one daemon: a small one that is timed, and a large one that keeps the samplers busy.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace croupier::bench {

struct Neighbours {
    std::string croupierd;  // empty: in the folder of this program
    std::uint32_t samplers = 1;
    std::uint32_t vocab = 32000;
    std::uint32_t columns = 1024;  // per step of the large session
    std::uint32_t slots = 8;       // steps in flight of the large session
    std::uint32_t steps = 1000;    // of the small session, alone and with the large one
    bool dearest = false;          // the large session has the most expensive columns
};

struct StepTimes {
    std::vector<std::uint64_t> alone_ns;
    std::vector<std::uint64_t> beside_ns;
    std::uint64_t large_columns = 0;  // columns of the large session decided meanwhile
};

// The time of a step is from its last tile to its decision.
StepTimes time_neighbours(const Neighbours& options);

}  // namespace croupier::bench

// How fast the cores are for a few milliseconds: one that is slower than its neighbours, or is not had.
#pragma once

#include <cstdint>
#include <vector>

namespace croupier::tools::doctor {

struct CoreSpeed {
    std::uint32_t core = 0;
    double turns_per_us = 0;  // of the processor time that was had
    double share = 0;         // of the time that passed
};

// Of at most some dozens of them, spread over all. A core that this process may not run on is left out.
std::vector<CoreSpeed> measure_cores(const std::vector<std::uint32_t>& cores);

}  // namespace croupier::tools::doctor

// Prints results of `croupier bench cliffs` as tables or JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/cliffs/request_cost.h"

namespace croupier::bench {

struct CliffsReport {
    std::string how;         // what was measured
    std::string reproduced;  // the command without the request's number
    std::uint64_t seed = 0;
    double most_medians = 0.0;         // what the dearest request may cost
    std::vector<MeasuredRequest> all;  // dearest first

    double median_us() const;
    bool has_cliff() const { return all.front().cost.us > most_medians * median_us(); }
    bool differs() const;
};

// `shown`: how many of the dearest kinds.
void print_cliffs(const CliffsReport& report, std::uint32_t shown);
void print_cliffs_json(const CliffsReport& report);

}  // namespace croupier::bench

// What a random request costs, and whether the reference decides it alike.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "bench/cliffs/drawn_request.h"

namespace croupier::bench {

// What a writer sends of a lean column, and what its sampler asks for: means of a column.
struct LeanCost {
    double bytes = 0.0;  // with the blocks that are asked for; 0, as the numbers of blocks: not known
    double blocks_sent = 0.0;
    double blocks_asked = 0.0;
    double tries = 0.0;
    double whole = 0.0;  // the share of columns that are sent whole
};

struct RequestCost {
    double us = 0.0;           // what requests are compared by
    double decision_us = 0.0;  // of a decision with all of its tries, on one core; 0: not measured by itself
    double reads = 0.0;        // of a decision, or else of a step: in plain reads of a row of the same dtype
    std::map<std::string, std::uint32_t> paths;  // decisions by path
    std::optional<LeanCost> lean;
    std::uint64_t verified = 0;  // decisions
    std::string difference;      // from the reference; empty: none
};

struct MeasuredRequest {
    DrawnRequest drawn;
    RequestCost cost;
};

}  // namespace croupier::bench

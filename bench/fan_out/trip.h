// Measures one method, with a process for the root and for each leaf.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/fan_out/ways.h"

namespace croupier::bench {

struct TripOptions {
    std::uint32_t leaves = 1;
    std::uint32_t record_bytes = 1024;
    std::uint32_t paced = 1000;   // sent one at a time, for the latency
    std::uint32_t burst = 20000;  // sent as fast as possible, for the rate
    std::uint16_t port = 0;       // tcp on loopback with CURVE; 0: ipc
};

struct Trip {
    std::vector<std::uint64_t>
        latency_ns;               // from the root's call until a leaf has the record, for every leaf
    double records_a_second = 0;  // until the last leaf has the last record
};

// Throws std::runtime_error with the message of the failed process.
Trip make_trip(Way way, const TripOptions& options);

}  // namespace croupier::bench

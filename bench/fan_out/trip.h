// One measurement of one way: processes of their own for the root and each leaf.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/fan_out/ways.h"

namespace croupier::bench {

struct TripOptions {
    std::uint32_t leaves = 1;
    std::uint32_t record_bytes = 1024;
    std::uint32_t paced = 1000;   // one after the other has arrived: latency
    std::uint32_t burst = 20000;  // as fast as they go: records a second
    std::uint16_t port = 0;       // over tcp on loopback, with CURVE; 0: over ipc
};

struct Trip {
    std::vector<std::uint64_t> latency_ns;  // from the root's call to the leaf's hand, of every leaf
    double records_a_second = 0;            // until the last leaf has the last one
};

// Throws std::runtime_error, with what its process said.
Trip make_trip(Way way, const TripOptions& options);

}  // namespace croupier::bench

// Two sessions of one daemon: one that is timed, and a neighbour that keeps the samplers busy.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/fairness/neighbour_kinds.h"
#include "measurement/bench_rows.h"
#include "testing/own_daemon.h"

namespace croupier::bench {

struct Shape {
    std::uint32_t columns = 1;
    std::uint32_t slots = 2;  // steps in flight
};

struct Timing {
    std::uint32_t steps = 200;
    std::chrono::microseconds period{5000};  // from a step's logits to the next one's, at least
};

struct StepTimes {
    std::vector<std::uint64_t> ns;
    double neighbour_columns = 0.0;  // that were decided in a period
};

class Neighbours {
  public:
    // `daemon` runs meanwhile.
    Neighbours(const testing::OwnDaemon& daemon, std::uint32_t vocab, Shape timed);

    // The time of a step is from its last tile to its decision.
    StepTimes time_alone(Timing timing) const;
    StepTimes time_beside(const NeighbourKind& kind, Shape neighbour, Timing timing) const;

  private:
    const testing::OwnDaemon& daemon_;
    measurement::BenchRows rows_;
    Shape timed_;
};

}  // namespace croupier::bench

// Runs of the simulated engine that are small enough for a test.
#pragma once

#include <catch2/catch.hpp>

#include "sim/orchestrator.h"

namespace croupier::sim {

// Small, but with every control, several ranks, and batches that change constantly.
inline SimOptions small_engine() {
    SimOptions options;
    options.vocab = 3001;
    options.tp = 3;
    options.pp = 2;
    options.batch = 16;
    options.steps = 100;
    options.prompt_max = 500;
    options.output_max = 48;
    options.timeout_s = 120;
    options.json = true;
    return options;
}

inline Report run(const SimOptions& options) {
    Orchestrator orchestrator(options);
    Report report = orchestrator.run();
    INFO(report.fault);
    INFO(report.first_mismatch);
    CHECK(report.passed());
    CHECK(report.verified > 0);
    CHECK(report.left_in_shm == 0);
    return report;
}

}  // namespace croupier::sim

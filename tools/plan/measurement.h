// What was measured on a host, as a file that `croupier plan --from` reads on another.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tools/plan/measured_step.h"
#include "tools/plan/sim_run.h"

namespace croupier::tools {

struct Host {
    std::string processor;
    std::uint32_t cores = 1;  // that a daemon counts there: by affinity and quota

    // Cores that samplers can have: one is the scheduler's and the supervisor's, one each the ranks'
    // workers'.
    std::uint32_t most_samplers(std::uint32_t tp) const;
};

struct Measurement {
    Host host;
    std::vector<MeasuredStep> steps;
};

// Of every combination a run; the stages take turns.
struct MeasuredSettings {
    std::vector<std::string> mixes;
    std::vector<std::uint32_t> vocabs;
    std::vector<std::uint32_t> batches;
    std::vector<std::uint32_t> ranks;
    std::vector<double> stages_ms;
    std::vector<std::uint32_t> samplers;  // empty: one, two, half of all and all that the cores have room for
    Setting other;                        // what is the same in all
    bool starts = false;                  // steps of one column a sampler, too: what they take to start
};

Measurement measure(const MeasuredSettings& settings, const SimPlace& place);

// Whole or not at all. All throw std::runtime_error with the file, the place and what would be right.
void save(const Measurement& measurement, const std::string& path);
Measurement load_measurement(const std::string& path);

}  // namespace croupier::tools

// Measurements of a host. `croupier plan --from` can read them on another host.
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
    std::uint32_t cores = 1;  // as the daemon counts them: by affinity and quota

    // One core is left for the scheduler and the supervisor, and one for each rank's worker.
    std::uint32_t most_samplers(std::uint32_t tp) const;
};

struct Measurement {
    Host host;
    std::vector<MeasuredStep> steps;
};

// Every combination is measured; the stage durations alternate between runs.
struct MeasuredSettings {
    std::vector<std::string> mixes;
    std::vector<std::uint32_t> vocabs;
    std::vector<std::uint32_t> batches;
    std::vector<std::uint32_t> ranks;
    std::vector<double> stages_ms;
    std::vector<std::uint32_t> samplers;  // empty: one, two, half and all of those that fit on the cores
    Setting other;                        // the values that all runs share
    bool starts =
        false;  // also measure steps with one column per sampler, which show the cost of starting a step
};

Measurement measure(const MeasuredSettings& settings, const SimPlace& place);

// Replaces the file atomically. All throw std::runtime_error with the file, the field and what is allowed.
void save(const Measurement& measurement, const std::string& path);
Measurement load_measurement(const std::string& path);

}  // namespace croupier::tools

// Plans the number of samplers for an engine on a host, and predicts step time and memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/plan/hot_set.h"
#include "tools/plan/measurement.h"
#include "tools/plan/step_model.h"

namespace croupier::tools {

// The part of a session's geometry that does not affect the time of a step.
struct SessionRoom {
    std::uint32_t sessions = 1;
    std::uint32_t steps_in_flight = 2;
    std::uint32_t max_sequences = 256;
    std::uint32_t max_length = 8192;
};

struct PlanQuestion {
    Setting setting;
    SessionRoom room;
    HotSetQuestion hot_set;
    std::uint32_t samplers = 0;   // 0: the smallest sufficient number
    double share_of_stage = 0.5;  // that the decisions of a step may take
};

// Planned where there is room for them, because one may be restarting.
constexpr std::uint32_t kLeastSamplers = 2;

struct PlannedMemory {
    std::uint64_t segment_bytes = 0;  // of one session
    std::uint64_t shm_bytes = 0;      // of all sessions, and one more during a takeover
    std::uint64_t process_bytes = 0;  // of the daemon's processes, with sequences of maximum length
};

struct Plan {
    PlanQuestion question;
    Host host;
    std::uint64_t runs = 0;  // of croupier sim in the measurement
    std::uint32_t most_samplers = 1;
    Prediction chosen;
    bool enough = true;  // a step of the chosen number takes at most the allowed share of a stage
    std::vector<Prediction> by_samplers;  // for some numbers, ascending, including the chosen one
    PlannedMemory memory;
    HotSetAnswer hot_set;
    std::vector<std::string> notes;
    std::optional<MeasuredStep> check;  // sim's measurement with the chosen number

    double stage_us() const { return question.setting.stage_ms * 1e3; }
    double share_of_stage(const Prediction& prediction) const { return prediction.p50_us / stage_us(); }
    bool is_hidden(const Prediction& prediction) const { return prediction.p50_us <= stage_us(); }
    // Relative error of the prediction, by the check: 0.1 means predicted 10 % too high.
    double error() const { return chosen.p50_us / check->p50_us - 1.0; }
};

// Throws std::runtime_error with what is wrong and what is allowed.
Plan make_plan(const PlanQuestion& question, const Measurement& measurement);

std::string plan_text(const Plan& plan);
std::string plan_json(const Plan& plan);
// A fragment of a pod's specification, as YAML.
std::string plan_kubernetes(const Plan& plan);

// Values for Kubernetes: whole CPUs, and MiB rounded up.
std::uint32_t kubernetes_cpus(const Plan& plan);
std::uint64_t kubernetes_memory_mib(const Plan& plan);
std::uint64_t kubernetes_shm_mib(const Plan& plan);

}  // namespace croupier::tools

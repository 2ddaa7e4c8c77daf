// How many samplers an engine needs on a host, what that costs a step, and what memory it takes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/plan/hot_set.h"
#include "tools/plan/measurement.h"
#include "tools/plan/step_model.h"

namespace croupier::tools {

// What a session asks for beside its setting: the rest of its geometry.
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
    std::uint32_t samplers = 0;   // 0: the plan's to choose
    double share_of_stage = 0.5;  // that decisions may take
};

// Where there is room: one may be restarting.
constexpr std::uint32_t kLeastSamplers = 2;

struct PlannedMemory {
    std::uint64_t segment_bytes = 0;  // of one session
    std::uint64_t shm_bytes = 0;      // of all, and of one more while one is taken over
    std::uint64_t process_bytes = 0;  // of the daemon's processes, histories at their longest
};

struct Plan {
    PlanQuestion question;
    Host host;
    std::uint64_t runs = 0;  // of croupier sim, of which the measurement is
    std::uint32_t most_samplers = 1;
    Prediction chosen;
    bool enough = true;                   // the chosen ones keep within the share of the stage
    std::vector<Prediction> by_samplers;  // some counts, ascending, the chosen one among them
    PlannedMemory memory;
    HotSetAnswer hot_set;
    std::vector<std::string> notes;
    std::optional<MeasuredStep> check;  // what sim measured of the chosen ones

    double stage_us() const { return question.setting.stage_ms * 1e3; }
    double share_of_stage(const Prediction& prediction) const { return prediction.p50_us / stage_us(); }
    bool hides(const Prediction& prediction) const { return prediction.p50_us <= stage_us(); }
    // Of the check: 0.1 is predicted a tenth too much.
    double error() const { return chosen.p50_us / check->p50_us - 1.0; }
};

// Throws std::runtime_error with what is wrong and what would be right.
Plan make_plan(const PlanQuestion& question, const Measurement& measurement);

std::string plan_text(const Plan& plan);
std::string plan_json(const Plan& plan);
// A fragment of a pod's specification, YAML.
std::string plan_kubernetes(const Plan& plan);

// What Kubernetes is told: whole CPUs, and MiB, rounded up.
std::uint32_t kubernetes_cpus(const Plan& plan);
std::uint64_t kubernetes_memory_mib(const Plan& plan);
std::uint64_t kubernetes_shm_mib(const Plan& plan);

}  // namespace croupier::tools

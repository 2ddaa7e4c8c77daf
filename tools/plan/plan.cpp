#include "tools/plan/plan.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "config/config.h"
#include "measurement/laid_rows.h"
#include "proto/lean_part.h"
#include "proto/plane.h"
#include "proto/segment_layout.h"

namespace croupier::tools {
namespace {

constexpr std::uint64_t kMib = 1ULL << 20U;
// Most bytes that a sampler derives per token of a log; see samplers.max_state_bytes in
// docs/configuration.md.
constexpr std::uint64_t kStateBytesOfToken = 100;
constexpr std::uint64_t kMemoryReserve = 64 * kMib;

proto::Geometry geometry_of(const PlanQuestion& question) {
    proto::Geometry geometry;
    geometry.vocab = question.setting.vocab;
    geometry.tp = question.setting.tp;
    geometry.max_batch = question.setting.batch;
    geometry.slots = question.room.steps_in_flight;
    geometry.dtype = measurement::dtype_of(question.setting.requests.dtype);
    geometry.max_sequences = question.room.max_sequences;
    geometry.max_length = question.room.max_length;
    geometry.mask_rows = question.setting.batch;
    geometry.has_order = 1;
    geometry.has_summaries = question.setting.requests.summaries ? 1 : 0;
    proto::fill_even_shards(geometry);
    if (question.setting.requests.transport == "lean") {
        geometry.lean_blocks = proto::kUsualLeanBlocks;
        geometry.has_order = 0;
    }
    if (const auto fault = proto::geometry_fault(geometry)) throw std::runtime_error(*fault);
    return geometry;
}

PlannedMemory memory_of(const PlanQuestion& question, const StepModel& model, std::uint32_t samplers) {
    PlannedMemory memory;
    memory.segment_bytes = proto::layout_of(geometry_of(question)).total_bytes;
    // A takeover creates a new segment before it removes the old one.
    memory.shm_bytes = (question.room.sessions + 1) * memory.segment_bytes +
                       proto::plane_bytes(samplers, config::Samplers().threads_per_sampler);
    const std::uint64_t histories = std::uint64_t{question.room.sessions} * question.room.max_sequences *
                                    question.room.max_length * kStateBytesOfToken;
    const std::uint64_t kept = samplers * config::Samplers().max_state_bytes;
    memory.process_bytes =
        samplers * model.sampler_bytes() + model.supervisor_bytes() + std::min(histories, kept);
    return memory;
}

// The smallest number of samplers with which a step takes at most `most_us`; `most` if none suffices.
std::uint32_t fewest_within(const StepModel& model, double most_us, std::uint32_t least, std::uint32_t most) {
    std::uint32_t below = least;
    std::uint32_t above = most;
    while (below < above) {
        const std::uint32_t middle = (below + above) / 2;
        if (model.predict(middle).p50_us <= most_us) {
            above = middle;
        } else {
            below = middle + 1;
        }
    }
    return below;
}

std::vector<Prediction> predictions_for_table(const StepModel& model, std::uint32_t chosen,
                                              std::uint32_t most) {
    std::set<std::uint32_t> counts = {chosen, most};
    for (std::uint32_t count = 1; count < most; count *= 2) counts.insert(count);
    std::vector<Prediction> predictions;
    predictions.reserve(counts.size());
    for (const std::uint32_t count : counts) predictions.push_back(model.predict(count));
    return predictions;
}

std::uint64_t mib_of(std::uint64_t bytes) {
    return (bytes + kMib - 1) / kMib;
}

}  // namespace

Plan make_plan(const PlanQuestion& question, const Measurement& measurement) {
    const StepModel model(measurement.steps, question.setting);
    Plan plan;
    plan.question = question;
    plan.host = measurement.host;
    for (const MeasuredStep& step : measurement.steps) plan.runs += step.runs;
    plan.notes = model.notes();
    // More samplers than columns would be idle, and more than were measured cannot be predicted.
    const std::uint32_t room = measurement.host.most_samplers(question.setting.tp);
    plan.most_samplers =
        std::min({std::max(room, question.samplers), question.setting.batch, model.most_samplers()});
    if (question.samplers > plan.most_samplers) {
        throw std::runtime_error(fmt::format(
            "--samplers is {}; allowed: up to {}. At most {} were measured, and a batch of {} keeps only "
            "that many busy",
            question.samplers, plan.most_samplers, model.most_samplers(), question.setting.batch));
    }
    const std::uint32_t least = std::min(kLeastSamplers, plan.most_samplers);
    const double most_us = plan.stage_us() * question.share_of_stage;
    const std::uint32_t chosen =
        question.samplers != 0 ? question.samplers : fewest_within(model, most_us, least, plan.most_samplers);
    plan.chosen = model.predict(chosen);
    plan.enough = plan.chosen.p50_us <= most_us;
    plan.by_samplers = predictions_for_table(model, chosen, plan.most_samplers);
    plan.memory = memory_of(question, model, chosen);
    plan.hot_set = ask_hot_set(question.hot_set);
    return plan;
}

std::uint32_t kubernetes_cpus(const Plan& plan) {
    // One core is for the supervisor; `samplers.count: 0` reserves one too.
    return plan.chosen.samplers + 1;
}

std::uint64_t kubernetes_shm_mib(const Plan& plan) {
    return mib_of(plan.memory.shm_bytes);
}

std::uint64_t kubernetes_memory_mib(const Plan& plan) {
    // The volume counts towards the container's memory.
    return mib_of(plan.memory.shm_bytes + plan.memory.process_bytes + kMemoryReserve);
}

}  // namespace croupier::tools

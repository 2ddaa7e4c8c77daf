#include "tools/plan/measurement_json.h"
#include "tools/plan/plan.h"

namespace croupier::tools {
namespace {

using Json = nlohmann::ordered_json;

Json prediction_json(const Plan& plan, const Prediction& prediction) {
    return {{"samplers", prediction.samplers},
            {"p50_us", prediction.p50_us},
            {"p99_us", prediction.p99_us},
            {"column_us", prediction.column_us},
            {"columns_alone_us", prediction.columns_us},
            {"share_of_stage", plan.share_of_stage(prediction)},
            {"hides", plan.is_hidden(prediction)}};
}

Json hot_set_json(const HotSetAnswer& hot) {
    if (!hot.measured) return {{"measured", false}};
    return {{"measured", true},
            {"size", hot.size},
            {"expected_us", hot.expected_us},
            {"own_choice_us", hot.own_choice_us},
            {"race_us", hot.race_us},
            {"pays_for_race", hot.pays_for_race()},
            {"pays_for_shvs", hot.pays_for_shvs()}};
}

}  // namespace

std::string plan_json(const Plan& plan) {
    Json by_samplers = Json::array();
    for (const Prediction& each : plan.by_samplers) by_samplers.push_back(prediction_json(plan, each));
    const SessionRoom& room = plan.question.room;
    Json json = {{"format", "croupier-plan"},
                 {"version", 1},
                 {"asked", setting_to_json(plan.question.setting)},
                 {"host", {{"processor", plan.host.processor}, {"cores", plan.host.cores}}},
                 {"runs", plan.runs},
                 {"samplers", plan.chosen.samplers},
                 {"most_samplers", plan.most_samplers},
                 {"enough", plan.enough},
                 {"step", prediction_json(plan, plan.chosen)},
                 {"by_samplers", std::move(by_samplers)},
                 {"shm",
                  {{"sessions", room.sessions},
                   {"steps_in_flight", room.steps_in_flight},
                   {"max_sequences", room.max_sequences},
                   {"max_length", room.max_length},
                   {"segment_bytes", plan.memory.segment_bytes},
                   {"bytes", plan.memory.shm_bytes}}},
                 {"process_bytes", plan.memory.process_bytes},
                 {"hot_set", hot_set_json(plan.hot_set)},
                 {"kubernetes",
                  {{"cpu", std::to_string(kubernetes_cpus(plan))},
                   {"memory", std::to_string(kubernetes_memory_mib(plan)) + "Mi"},
                   {"shm_size_limit", std::to_string(kubernetes_shm_mib(plan)) + "Mi"}}},
                 {"notes", plan.notes}};
    if (plan.check) {
        json["check"] = {{"p50_us", plan.check->p50_us},
                         {"p99_us", plan.check->p99_us},
                         {"runs", plan.check->runs},
                         {"steps", plan.check->steps},
                         {"error", plan.error()}};
    }
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace croupier::tools

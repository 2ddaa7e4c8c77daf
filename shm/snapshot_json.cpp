#include <algorithm>
#include <nlohmann/json.hpp>

#include "shm/build_note.h"
#include "shm/snapshot.h"

namespace croupier::shm {
namespace {

using nlohmann::json;

double seconds(std::uint64_t ns) {
    return static_cast<double>(ns) * 1e-9;
}

json sampler_json(const SamplerSnapshot& sampler, double busy_share) {
    json stages;
    for (std::size_t i = 0; i < sampler.stages.size(); ++i) {
        stages[proto::kStageNames[i]] = {{"count", sampler.stages[i].count()},
                                         {"sum_seconds", seconds(sampler.stages[i].sum_ns)}};
    }
    return {
        {"index", sampler.index},
        {"alive", sampler.alive},
        {"pid", sampler.pid},
        {"core", sampler.core},
        {"restarts", sampler.restarts},
        {"heartbeat_age_seconds", seconds(sampler.heartbeat_age_ns)},
        {"columns_decided", sampler.columns},
        {"busy_share", busy_share},
        {"states",
         {{"bytes", sampler.state_bytes}, {"count", sampler.states}, {"dropped", sampler.states_dropped}}},
        {"stages", stages}};
}

json session_json(const SessionSnapshot& session) {
    json counters;
    for (std::size_t i = 0; i < session.counters.size(); ++i) {
        counters[proto::kSessionCounterText[i].name] = session.counters[i];
    }
    json behind = json::array();
    for (const std::uint64_t ns : session.rank_behind_ns) behind.push_back(seconds(ns));
    json answer = {{"id", session.id},
                   {"name", session.name},
                   {"segment", session.path},
                   {"state", session_state_name(session.state)},
                   {"vocab", session.geometry.vocab},
                   {"tp", session.geometry.tp},
                   {"max_batch", session.geometry.max_batch},
                   {"transport", session.geometry.transport()},
                   {"dtype", proto::name_of(session.geometry.dtype)},
                   {"tile", session.geometry.tile},
                   {"bytes", session.bytes},
                   {"client", {{"pid", session.client_pid}, {"alive", session.client_alive}}},
                   {"writers_alive", session.writers_alive},
                   {"writer_pids", session.writer_pids},
                   {"rank_behind_seconds", behind},
                   {"rings",
                    {{"slots", session.geometry.slots},
                     {"in_flight", session.steps_in_flight},
                     {"decided_not_taken", session.steps_decided_not_taken}}},
                   {"live_sequences", session.live_sequences},
                   {"hot_set", {{"size", session.hot_size}, {"acceptance", session.hot_acceptance()}}},
                   {"counters", counters}};
    // Not told to who asks: it is another's.
    if (session.path.empty()) {
        for (const char* key : {"id", "segment", "writer_pids"}) answer.erase(key);
        answer["client"].erase("pid");
    }
    if (!session.fault.empty()) answer["fault"] = session.fault;
    return answer;
}

}  // namespace

std::string to_json(const Snapshot& snapshot) {
    json answer = {{"instance", snapshot.instance},
                   {"build", {{"version", CROUPIER_VERSION}, {"layouts", build_note().layouts()}}},
                   {"daemon",
                    {{"alive", snapshot.daemon_alive},
                     {"pid", snapshot.daemon_pid},
                     {"up_seconds", seconds(snapshot.up_ns)},
                     {"threads_per_sampler", std::max(snapshot.threads_per_sampler, 1U)}}},
                   {"samplers", json::array()},
                   {"sessions", json::array()}};
    for (const auto& sampler : snapshot.samplers)
        answer["samplers"].push_back(sampler_json(sampler, snapshot.busy_share(sampler)));
    for (const auto& session : snapshot.sessions) answer["sessions"].push_back(session_json(session));
    // Names are bytes of another process: what is no UTF-8 is shown as such instead of thrown over.
    return answer.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace croupier::shm

#include "tools/top/view_json.h"

#include <nlohmann/json.hpp>

#include "tools/column_words.h"

namespace croupier::tools {
namespace {

using nlohmann::json;

double seconds(std::uint64_t ns) {
    return static_cast<double>(ns) * 1e-9;
}

json spread_json(const std::optional<Spread>& of) {
    if (!of) return nullptr;
    return {{"p50", seconds(of->p50_ns)}, {"p99", seconds(of->p99_ns)}};
}

template <typename T>
json or_null(const std::optional<T>& of) {
    return of ? json(*of) : json(nullptr);
}

json session_json(const SessionLine& line) {
    json answer = {{"id", line.seen.id}, {"name", line.seen.name}, {"segment", line.seen.path}};
    if (!line.seen.fault.empty()) {
        answer["fault"] = line.seen.fault;
        return answer;
    }
    answer["state"] = shm::session_state_name(line.seen.state);
    answer["tokens_per_second"] = line.tokens_per_second;
    answer["steps_per_second"] = line.steps_per_second;
    answer["steps_in_flight"] = line.seen.steps_in_flight;
    answer["slots"] = line.seen.geometry.slots;
    answer["live_sequences"] = line.seen.live_sequences;
    answer["step_seconds"] = {{"logits_wait", spread_json(line.logits_wait)},
                              {"deciding", spread_json(line.deciding)},
                              {"to_be_taken", spread_json(line.to_be_taken)}};
    answer["hidden_share"] = or_null(line.hidden);
    return answer;
}

json sampler_json(const SamplerLine& line) {
    return {{"index", line.seen.index},
            {"alive", line.seen.alive},
            {"pid", line.seen.pid},
            {"core", line.seen.core},
            {"restarts", line.seen.restarts},
            {"busy_share", line.busy},
            {"columns_per_second", line.columns_per_second}};
}

json rank_json(const RankLine& line) {
    return {{"session", line.session},
            {"rank", line.rank},
            {"last_share", or_null(line.last_share)},
            {"late_seconds", spread_json(line.late)},
            {"behind_seconds", seconds(line.behind_ns)}};
}

json column_json(const SlowColumn& line) {
    const proto::ColumnRecord& column = line.record;
    const std::uint64_t waited = column.begin_ns > column.ready_ns ? column.begin_ns - column.ready_ns : 0;
    return {{"session", line.session},
            {"step", column.step},
            {"column", column.column},
            // As text: a reader of JSON may round numbers beyond 2^53.
            {"sequence", std::to_string(column.sequence_uid)},
            {"sampler", line.sampler},
            {"path", path_name(column.path)},
            {"seconds", seconds(column.duration_ns)},
            {"waited_seconds", column.ready_ns == 0 ? json(nullptr) : json(seconds(waited))},
            {"blocks_read", column.blocks_read},
            {"blocks", column.blocks},
            {"error", error_name(column.error)},
            {"notes", notes_on(column)}};
}

template <typename Lines, typename Make>
json array_of(const Lines& lines, Make make) {
    json array = json::array();
    for (const auto& line : lines) array.push_back(make(line));
    return array;
}

}  // namespace

std::string to_json(const View& view) {
    json answer = {{"instance", view.instance},
                   {"daemon",
                    {{"alive", view.daemon_alive},
                     {"stopped", view.daemon_stopped},
                     {"pid", view.daemon_pid},
                     {"up_seconds", seconds(view.up_ns)},
                     {"gone_seconds", seconds(static_cast<std::uint64_t>(view.gone_for.count()))}}},
                   {"sessions", array_of(view.sessions, session_json)},
                   {"samplers", array_of(view.samplers, sampler_json)},
                   {"late_ranks", array_of(view.ranks, rank_json)},
                   {"slowest_columns", array_of(view.slowest, column_json)},
                   {"entries_lost", view.lost}};
    if (!view.fault.empty()) answer["fault"] = view.fault;
    // Names are bytes of another process: what is no UTF-8 is shown as such instead of thrown over.
    return answer.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace croupier::tools

#include "daemon/observation/recent_json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sampler/workspace.h"

namespace croupier::daemon {
namespace {

using nlohmann::json;
using proto::SessionCounter;

constexpr std::array kQuantiles = {0.5, 0.9, 0.99};

struct Field {
    const char* name;
    std::uint64_t (*value)(const SessionSecond&);
};

template <SessionCounter kWhich>
std::uint64_t count(const SessionSecond& second) {
    return second.counts[static_cast<std::size_t>(kWhich)];
}

template <SessionCounter kWhich>
std::uint64_t microseconds(const SessionSecond& second) {
    return count<kWhich>(second) / 1000;
}

template <int kPercent>
std::uint64_t step_quantile_us(const SessionSecond& second) {
    const double seconds = second.steps.decision.quantile_seconds(kPercent * 0.01).value_or(0);
    return static_cast<std::uint64_t>(seconds * 1e6);
}

// A list a second instead of objects: a page that opens asks for fifteen minutes of them.
constexpr std::array kSessionFields = {
    Field{"columns_decided", count<SessionCounter::columns_decided>},
    Field{"columns_failed", count<SessionCounter::columns_failed>},
    Field{"steps_taken", count<SessionCounter::steps_taken>},
    Field{"logits_wait_us", microseconds<SessionCounter::logits_wait_ns>},
    Field{"decision_us", microseconds<SessionCounter::step_decision_ns>},
    Field{"exposed_us", microseconds<SessionCounter::exposed_ns>},
    Field{"column_delay_us", microseconds<SessionCounter::column_delay_ns>},
    Field{"draws_hot", count<SessionCounter::draws_hot>},
    Field{"draws_tail", count<SessionCounter::draws_tail>},
    Field{"steps_in_flight", [](const SessionSecond& second) { return second.steps_in_flight; }},
    Field{"steps_decided_not_taken",
          [](const SessionSecond& second) { return second.steps_decided_not_taken; }},
    Field{"live_sequences", [](const SessionSecond& second) { return second.live_sequences; }},
    Field{"latest_rank_us", [](const SessionSecond& second) { return second.latest_rank_ns / 1000; }},
    Field{"takings", [](const SessionSecond& second) { return second.steps.taken; }},
    Field{"taking_us", [](const SessionSecond& second) { return second.steps.taking_ns / 1000; }},
    Field{"step_half_us", step_quantile_us<50>},
    Field{"step_99_us", step_quantile_us<99>},
};

// Names are bytes of another process.
std::string text_of(const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

json sessions_json(const Second& second) {
    json sessions = json::array();
    for (const auto& session : second.sessions) {
        json row = json::array({session.name});
        for (const Field& field : kSessionFields) row.push_back(field.value(session));
        sessions.push_back(std::move(row));
    }
    return sessions;
}

// Microseconds with a digit behind the point; null where nothing was counted.
json quantiles_json(const shm::HistogramSnapshot& stage) {
    json quantiles = json::array();
    for (const double quantile : kQuantiles) {
        const auto value = stage.quantile_seconds(quantile);
        quantiles.push_back(value ? json(std::round(*value * 1e7) / 10) : json());
    }
    return quantiles;
}

json second_json(const Second& second) {
    json busy = json::array();
    for (const std::uint64_t ns : second.sampler_busy_ns) busy.push_back(ns / 1000);
    json stages = json::array();
    for (const auto& stage : second.stages) stages.push_back(quantiles_json(stage));
    return {{"number", second.number},
            {"unix_ms", second.end.unix_ms},
            {"length_us", second.length_ns / 1000},
            {"sessions", sessions_json(second)},
            {"sampler_busy_us", busy},
            {"stages_us", stages}};
}

json slowest_json(const JournalDigest& journal) {
    json slowest = json::array();
    for (const auto& [session, column] : journal.slowest()) {
        const proto::ColumnRecord& record = column.record;
        const auto path = std::min<std::uint32_t>(
            record.path, static_cast<std::uint32_t>(request::DecisionPath::count_) - 1);
        const std::uint64_t waited =
            record.ready_ns != 0 && record.begin_ns > record.ready_ns ? record.begin_ns - record.ready_ns : 0;
        slowest.push_back({{"session", session},
                           // As text: a script's numbers are exact up to 2^53 only.
                           {"uid", std::to_string(record.sequence_uid)},
                           {"step", record.step},
                           {"column", record.column},
                           {"sampler", column.sampler},
                           {"took_us", record.duration_ns / 1000},
                           {"waited_us", waited / 1000},
                           {"path", request::name_of(static_cast<request::DecisionPath>(path))},
                           {"blocks_read", record.blocks_read},
                           {"blocks", record.blocks}});
    }
    return slowest;
}

}  // namespace

void RecentJson::add(const Second& second) {
    seconds_.push_back({second.number, text_of(second_json(second))});
    if (seconds_.size() > kSecondsKept) seconds_.pop_front();
}

std::string RecentJson::answer(const RecentMinutes& recent, const JournalDigest& journal, std::uint64_t after,
                               const char* serving) const {
    json fields = json::array();
    for (const Field& field : kSessionFields) fields.push_back(field.name);
    const json answer = {{"version", CROUPIER_VERSION},
                         {"serving", serving},
                         {"began_unix_ms", recent.began().unix_ms},
                         {"seconds_kept", kSecondsKept},
                         {"session_fields", fields},
                         {"stages", proto::kStageNames},
                         {"quantiles", kQuantiles},
                         {"slowest", slowest_json(journal)},
                         {"journal_entries_lost", journal.lost_lately()}};
    std::string text = text_of(answer);
    text.back() = ',';
    text += "\"seconds\":[";
    const auto first = std::find_if(seconds_.begin(), seconds_.end(),
                                    [&](const Written& second) { return second.number > after; });
    for (auto second = first; second != seconds_.end(); ++second) {
        if (second != first) text += ',';
        text += second->json;
    }
    return text += "]}";
}

}  // namespace croupier::daemon

#include "daemon/recent_minutes.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace croupier;
using daemon::Moment;
using daemon::RecentMinutes;
using proto::SessionCounter;

namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

shm::SessionSnapshot session(std::uint64_t id, const std::string& name,
                             std::map<SessionCounter, std::uint64_t> counts = {}) {
    shm::SessionSnapshot made;
    made.path = "/dev/shm/croupier/croupier-test-" + std::to_string(id) + ".seg";
    made.name = name;
    for (const auto& [which, value] : counts) made.counters[static_cast<std::size_t>(which)] = value;
    return made;
}

shm::Snapshot snapshot(std::vector<shm::SessionSnapshot> sessions) {
    shm::Snapshot made;
    made.sessions = std::move(sessions);
    return made;
}

Moment at(std::uint64_t second) {
    return {1'000 * kSecond + second * kSecond, 1'700'000'000'000 + second * 1000};
}

std::uint64_t count(const daemon::SessionCounts& counts, SessionCounter which) {
    return counts[static_cast<std::size_t>(which)];
}

// What "engine" counted within the alarms' window.
daemon::SessionCounts counted(const RecentMinutes& recent) {
    return recent.sessions(daemon::kAlarmWindowNs).at("engine");
}

nlohmann::json told(const RecentMinutes& recent, std::uint64_t after = 0) {
    return nlohmann::json::parse(recent.to_json(after, "ready"));
}

}  // namespace

TEST_CASE("an overlap that falls is seen within the window, however long it was good before") {
    RecentMinutes recent(at(0));
    std::uint64_t decision = 0;
    std::uint64_t exposed = 0;
    const auto look = [&](std::uint64_t second) {
        recent.add(snapshot({session(
                       1, "engine",
                       {{SessionCounter::decision_ns, decision}, {SessionCounter::exposed_ns, exposed}})}),
                   at(second));
    };
    std::uint64_t second = 0;
    for (; second < 5000; ++second, decision += 1000) look(second);
    CHECK(daemon::overlap_ratio(counted(recent)) == 1.0);
    for (; second < 5150; ++second, decision += 1000, exposed += 1000) look(second);
    CHECK(daemon::overlap_ratio(counted(recent)).value() == Approx(0.5).margin(0.01));
    for (; second < 5301; ++second, decision += 1000, exposed += 1000) look(second);
    CHECK(daemon::overlap_ratio(counted(recent)) == 0.0);
    // Nothing is decided any more: then there is no share, and no alarm on it.
    for (; second < 5700; ++second) look(second);
    CHECK(daemon::overlap_ratio(counted(recent)) == std::nullopt);
}

TEST_CASE(
    "what an adopted session counted in its life before is no second's work, and a new one's first is") {
    RecentMinutes recent(at(0));
    recent.add(snapshot({session(1, "engine", {{SessionCounter::columns_decided, 1'000'000}})}), at(0));
    recent.add(snapshot({session(1, "engine", {{SessionCounter::columns_decided, 1'000'000}})}), at(1));
    CHECK(count(counted(recent), SessionCounter::columns_decided) == 0);
    recent.add(snapshot({session(1, "engine", {{SessionCounter::columns_decided, 1'000'008}})}), at(2));
    CHECK(count(counted(recent), SessionCounter::columns_decided) == 8);
    // Its name is opened anew: another session, whose counters begin at nothing.
    recent.add(snapshot({session(2, "engine", {{SessionCounter::columns_decided, 3}})}), at(3));
    recent.add(snapshot({session(2, "engine", {{SessionCounter::columns_decided, 5}})}), at(4));
    CHECK(count(counted(recent), SessionCounter::columns_decided) == 13);
}

TEST_CASE("counters that a client writes at will make no share outside of 0 to 1, and no negative count") {
    RecentMinutes recent(at(0));
    const auto look = [&](std::uint64_t second, std::uint64_t decision, std::uint64_t exposed) {
        recent.add(snapshot({session(1, "engine",
                                     {{SessionCounter::decision_ns, decision},
                                      {SessionCounter::exposed_ns, exposed},
                                      {SessionCounter::columns_decided, exposed}})}),
                   at(second));
    };
    look(0, 1000, 1000);
    look(1, 1001, ~0ULL);
    CHECK(daemon::overlap_ratio(counted(recent)) == 0.0);
    look(2, 5000, 7);
    look(3, 0, 0);
    CHECK(count(counted(recent), SessionCounter::decision_ns) == 4000);
    CHECK(daemon::overlap_ratio(counted(recent)) == 0.0);
}

TEST_CASE("a session that cannot be read is left out, and its work meanwhile is that of no second") {
    RecentMinutes recent(at(0));
    auto broken = session(1, "engine", {{SessionCounter::columns_decided, 50}});
    recent.add(snapshot({session(1, "engine", {{SessionCounter::columns_decided, 10}})}), at(0));
    broken.fault = "the step counters contradict each other";
    recent.add(snapshot({broken}), at(1));
    CHECK(recent.sessions(daemon::kAlarmWindowNs).empty());
    recent.add(snapshot({session(1, "engine", {{SessionCounter::columns_decided, 90}})}), at(2));
    CHECK(count(counted(recent), SessionCounter::columns_decided) == 0);
}

TEST_CASE("fifteen minutes are kept, and who knows the seconds up to a number is told the later ones") {
    RecentMinutes recent(at(0));
    for (std::uint64_t second = 0; second <= 1000; ++second) {
        recent.add(snapshot({session(1, "engine", {{SessionCounter::columns_decided, 10 * second}})}),
                   at(second));
    }
    const auto all = told(recent);
    REQUIRE(all.at("seconds").size() == daemon::kSecondsKept);
    CHECK(all.at("seconds").front().at("number") == 101);
    CHECK(all.at("seconds").back().at("number") == 1000);
    CHECK(all.at("seconds").back().at("unix_ms") == at(1000).unix_ms);
    CHECK(all.at("seconds").back().at("length_us") == 1'000'000);
    CHECK(all.at("seconds").back().at("sessions") ==
          nlohmann::json::parse("[[0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]]"));
    CHECK(all.at("session_fields").size() == 13);
    CHECK(all.at("began_unix_ms") == at(0).unix_ms);
    const auto later = told(recent, 998);
    REQUIRE(later.at("seconds").size() == 2);
    CHECK(later.at("seconds").front() == all.at("seconds").at(898));
    CHECK(told(recent, 1000).at("seconds").empty());
    CHECK(told(recent, ~0ULL).at("seconds").empty());
}

TEST_CASE("a second that took longer says so") {
    RecentMinutes recent(at(0));
    recent.add(snapshot({}), at(0));
    recent.add(snapshot({}), at(7));
    CHECK(told(recent).at("seconds").at(0).at("length_us") == 7'000'000);
    // 300 seconds are 300 seconds, not 300 looks.
    for (std::uint64_t second = 1; second < 40; ++second) {
        recent.add(snapshot({session(1, "engine", {{SessionCounter::columns_decided, second}})}),
                   at(7 + 10 * second));
    }
    CHECK(count(counted(recent), SessionCounter::columns_decided) == 30);
}

TEST_CASE("names that are no UTF-8, or markup, come out of the JSON as they can") {
    RecentMinutes recent(at(0));
    for (std::uint64_t second = 0; second < 2; ++second) {
        recent.add(snapshot({session(1, "a\xff\"\\"), session(2, "<img/src=x/onerror=alert(1)>"),
                             session(3, "__proto__")}),
                   at(second));
    }
    CHECK(told(recent).at("names") ==
          nlohmann::json({"a\xEF\xBF\xBD\"\\", "<img/src=x/onerror=alert(1)>", "__proto__"}));
}

TEST_CASE("quantiles are those of the window, over all samplers, and samplers' busy time is each one's own") {
    RecentMinutes recent(at(0));
    shm::Snapshot looked;
    looked.samplers.resize(2);
    const auto stage = static_cast<std::size_t>(proto::Stage::decide);
    recent.add(looked, at(0));
    CHECK(told(recent).at("seconds").empty());
    CHECK(recent.stages(daemon::kAlarmWindowNs)[stage].quantile_seconds(0.5) == std::nullopt);
    // 99 decisions of 4 to 8 µs by one sampler, one of 64 to 128 µs by the other.
    looked.samplers[0].stages[stage].buckets[5] = 99;
    looked.samplers[1].stages[stage].buckets[9] = 1;
    looked.samplers[1].busy_ns = 250'000'000;
    recent.add(looked, at(1));
    const auto window = recent.stages(daemon::kAlarmWindowNs)[stage];
    CHECK(window.quantile_seconds(0.5).value() == Approx(6.02e-6).epsilon(0.01));
    CHECK(window.quantile_seconds(0.99).value() == Approx(8e-6));
    CHECK(window.quantile_seconds(1.0).value() == Approx(128e-6));
    const auto second = told(recent).at("seconds").at(0);
    CHECK(second.at("sampler_busy_us") == nlohmann::json({0, 250'000}));
    CHECK(second.at("stages_us").at(stage).at(2) == 8.0);
    CHECK(second.at("stages_us").at(0).at(0).is_null());
    for (std::uint64_t later = 2; later < 400; ++later) recent.add(looked, at(later));
    CHECK(recent.stages(daemon::kAlarmWindowNs)[stage].count() == 0);
}

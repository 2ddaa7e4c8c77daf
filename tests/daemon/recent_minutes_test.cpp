#include "daemon/observation/recent_minutes.h"

#include <malloc.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "daemon/observation/recent_json.h"
#include "sampler/workspace.h"
#include "testing/daemon_process.h"

using namespace croupier;
using daemon::Moment;
using daemon::RecentMinutes;
using proto::SessionCounter;

namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

shm::SessionSnapshot session(std::uint64_t id, const std::string& name,
                             const std::map<SessionCounter, std::uint64_t>& counts = {}) {
    shm::SessionSnapshot made;
    made.path = "/dev/shm/croupier/croupier-test-" + std::to_string(id) + ".seg";
    made.id = id;
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

// A plane of which no daemon has taken hold, with one journal.
struct Journal {
    testing::Sandbox sandbox;
    shm::Plane plane = shm::Plane::create(directory(), sandbox.instance(), 1, 1).value();
    shm::JournalWriter writer{plane.journals()[0]};
    daemon::JournalDigest digest{plane};

    // A second with one reading.
    void observe(const shm::Snapshot& snapshot) {
        digest.read(plane);
        digest.close_second(snapshot);
    }

    std::string directory() const {
        std::filesystem::create_directories(sandbox.shm_directory());
        return sandbox.shm_directory();
    }
};

// Of a step of session 1 with three slots.
proto::StepRecord step_record(std::uint64_t step, std::uint64_t ready, std::uint64_t commit,
                              std::uint64_t before_taken) {
    proto::StepRecord record;
    record.session_id = 1;
    record.step = step;
    record.ready_ns = ready;
    record.commit_ns = commit;
    record.before_taken_ns = before_taken;
    record.slots = 3;
    return record;
}

proto::ColumnRecord column_record(std::uint64_t session, std::uint64_t uid, std::uint32_t duration_ns) {
    proto::ColumnRecord record;
    record.session_id = session;
    record.sequence_uid = uid;
    record.ready_ns = 1000;
    record.begin_ns = 5000;
    record.duration_ns = duration_ns;
    record.path = static_cast<std::uint8_t>(request::DecisionPath::race);
    return record;
}

nlohmann::json told(const RecentMinutes& recent, const daemon::JournalDigest& journal,
                    std::uint64_t after = 0) {
    daemon::RecentJson json;
    for (const auto& second : recent.seconds()) json.add(second);
    return nlohmann::json::parse(json.answer(recent, journal, after, "ready"));
}

nlohmann::json told(const RecentMinutes& recent, std::uint64_t after = 0) {
    static const Journal none;
    return told(recent, none.digest, after);
}

void add(RecentMinutes& recent, const shm::Snapshot& snapshot, Moment now) {
    static const Journal none;
    recent.add(snapshot, none.digest, now);
}

}  // namespace

TEST_CASE("an overlap that falls is seen within the window, however long it was good before") {
    RecentMinutes recent(at(0));
    std::uint64_t decision = 0;
    std::uint64_t exposed = 0;
    const auto observe = [&](std::uint64_t second) {
        add(recent,
            snapshot({session(
                1, "engine",
                {{SessionCounter::step_decision_ns, decision}, {SessionCounter::exposed_ns, exposed}})}),
            at(second));
    };
    std::uint64_t second = 0;
    for (; second < 5000; ++second, decision += 1000) observe(second);
    CHECK(daemon::overlap_ratio(counted(recent)) == 1.0);
    for (; second < 5150; ++second, decision += 1000, exposed += 1000) observe(second);
    CHECK(daemon::overlap_ratio(counted(recent)).value() == Approx(0.5).margin(0.01));
    for (; second < 5301; ++second, decision += 1000, exposed += 1000) observe(second);
    CHECK(daemon::overlap_ratio(counted(recent)) == 0.0);
    // Nothing is decided any more: then there is no share, and no alarm on it.
    for (; second < 5700; ++second) observe(second);
    CHECK(daemon::overlap_ratio(counted(recent)) == std::nullopt);
}

TEST_CASE(
    "counts from before a session's adoption belong to no second, and a new session's first counts do") {
    RecentMinutes recent(at(0));
    add(recent, snapshot({session(1, "engine", {{SessionCounter::columns_decided, 1'000'000}})}), at(0));
    add(recent, snapshot({session(1, "engine", {{SessionCounter::columns_decided, 1'000'000}})}), at(1));
    CHECK(count(counted(recent), SessionCounter::columns_decided) == 0);
    add(recent, snapshot({session(1, "engine", {{SessionCounter::columns_decided, 1'000'008}})}), at(2));
    CHECK(count(counted(recent), SessionCounter::columns_decided) == 8);
    // Its name is opened anew: another session, whose counters begin at nothing.
    add(recent, snapshot({session(2, "engine", {{SessionCounter::columns_decided, 3}})}), at(3));
    add(recent, snapshot({session(2, "engine", {{SessionCounter::columns_decided, 5}})}), at(4));
    CHECK(count(counted(recent), SessionCounter::columns_decided) == 13);
}

TEST_CASE("counters that a client writes at will make no share outside of 0 to 1, and no negative count") {
    RecentMinutes recent(at(0));
    const auto observe = [&](std::uint64_t second, std::uint64_t decision, std::uint64_t exposed) {
        add(recent,
            snapshot({session(1, "engine",
                              {{SessionCounter::step_decision_ns, decision},
                               {SessionCounter::exposed_ns, exposed},
                               {SessionCounter::columns_decided, exposed}})}),
            at(second));
    };
    observe(0, 1000, 1000);
    observe(1, 1001, ~0ULL);
    CHECK(daemon::overlap_ratio(counted(recent)) == 0.0);
    observe(2, 5000, 7);
    observe(3, 0, 0);
    CHECK(count(counted(recent), SessionCounter::step_decision_ns) == 4000);
    CHECK(daemon::overlap_ratio(counted(recent)) == 0.0);
}

TEST_CASE("a session that cannot be read is left out, and its work meanwhile is that of no second") {
    RecentMinutes recent(at(0));
    auto broken = session(1, "engine", {{SessionCounter::columns_decided, 50}});
    add(recent, snapshot({session(1, "engine", {{SessionCounter::columns_decided, 10}})}), at(0));
    broken.fault = "the step counters contradict each other";
    add(recent, snapshot({broken}), at(1));
    CHECK(recent.sessions(daemon::kAlarmWindowNs).empty());
    add(recent, snapshot({session(1, "engine", {{SessionCounter::columns_decided, 90}})}), at(2));
    CHECK(count(counted(recent), SessionCounter::columns_decided) == 0);
}

TEST_CASE(
    "fifteen minutes are kept, and a reader that knows the seconds up to a number gets the later ones") {
    RecentMinutes recent(at(0));
    for (std::uint64_t second = 0; second <= 1000; ++second) {
        add(recent, snapshot({session(1, "engine", {{SessionCounter::columns_decided, 10 * second}})}),
            at(second));
    }
    const auto all = told(recent);
    REQUIRE(all.at("seconds").size() == daemon::kSecondsKept);
    CHECK(all.at("seconds").front().at("number") == 101);
    CHECK(all.at("seconds").back().at("number") == 1000);
    CHECK(all.at("seconds").back().at("unix_ms") == at(1000).unix_ms);
    CHECK(all.at("seconds").back().at("length_us") == 1'000'000);
    CHECK(all.at("seconds").back().at("sessions") ==
          nlohmann::json::parse("[[\"engine\", 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]]"));
    CHECK(all.at("session_fields").size() == 17);
    CHECK(all.at("began_unix_ms") == at(0).unix_ms);
    const auto later = told(recent, 998);
    REQUIRE(later.at("seconds").size() == 2);
    CHECK(later.at("seconds").front() == all.at("seconds").at(898));
    CHECK(told(recent, 1000).at("seconds").empty());
    CHECK(told(recent, ~0ULL).at("seconds").empty());
}

TEST_CASE("an observation that took longer than a second says how long") {
    RecentMinutes recent(at(0));
    add(recent, snapshot({}), at(0));
    add(recent, snapshot({}), at(7));
    CHECK(told(recent).at("seconds").at(0).at("length_us") == 7'000'000);
    // 300 seconds are 300 seconds, not 300 observations.
    for (std::uint64_t second = 1; second < 40; ++second) {
        add(recent, snapshot({session(1, "engine", {{SessionCounter::columns_decided, second}})}),
            at(7 + 10 * second));
    }
    CHECK(count(counted(recent), SessionCounter::columns_decided) == 30);
}

TEST_CASE("names that are markup stay as they are in the JSON, and invalid UTF-8 is replaced") {
    RecentMinutes recent(at(0));
    for (std::uint64_t second = 0; second < 2; ++second) {
        add(recent,
            snapshot({session(1, "a\xff\"\\"), session(2, "<img/src=x/onerror=alert(1)>"),
                      session(3, "__proto__")}),
            at(second));
    }
    const auto sessions = told(recent).at("seconds").at(0).at("sessions");
    CHECK(sessions.at(0).at(0) == "a\xEF\xBF\xBD\"\\");
    CHECK(sessions.at(1).at(0) == "<img/src=x/onerror=alert(1)>");
    CHECK(sessions.at(2).at(0) == "__proto__");
}

TEST_CASE("quantiles are those of the window, over all samplers, and samplers' busy time is each one's own") {
    RecentMinutes recent(at(0));
    shm::Snapshot seen;
    seen.samplers.resize(2);
    const auto stage = static_cast<std::size_t>(proto::Stage::decide);
    add(recent, seen, at(0));
    CHECK(told(recent).at("seconds").empty());
    CHECK(recent.stages(daemon::kAlarmWindowNs)[stage].quantile_seconds(0.5) == std::nullopt);
    // 99 decisions of 4 to 8 µs by one sampler, one of 64 to 128 µs by the other.
    seen.samplers[0].stages[stage].buckets[5] = 99;
    seen.samplers[1].stages[stage].buckets[9] = 1;
    seen.samplers[1].busy_ns = 250'000'000;
    add(recent, seen, at(1));
    const auto window = recent.stages(daemon::kAlarmWindowNs)[stage];
    CHECK(window.quantile_seconds(0.5).value() == Approx(6.02e-6).epsilon(0.01));
    CHECK(window.quantile_seconds(0.99).value() == Approx(8e-6));
    CHECK(window.quantile_seconds(1.0).value() == Approx(128e-6));
    const auto second = told(recent).at("seconds").at(0);
    CHECK(second.at("sampler_busy_us") == nlohmann::json({0, 250'000}));
    CHECK(second.at("stages_us").at(stage).at(2) == 8.0);
    CHECK(second.at("stages_us").at(0).at(0).is_null());
    for (std::uint64_t later = 2; later < 400; ++later) add(recent, seen, at(later));
    CHECK(recent.stages(daemon::kAlarmWindowNs)[stage].count() == 0);
}

TEST_CASE("a session's steps are counted from the journal, each once, and until it is gone") {
    Journal journal;
    const auto both = snapshot({session(1, "engine"), session(2, "other")});
    journal.observe(both);
    // Logits to commit: 8 µs. Step 13 says that step 10 was taken 3 µs after its commit.
    journal.writer.write(step_record(10, 1000, 9000, 0));
    journal.writer.write(step_record(13, 21000, 29000, 12000));
    journal.observe(both);
    const auto counted = journal.digest.last_steps(1);
    CHECK(counted.decision.count() == 2);
    CHECK(counted.decision.sum_ns == 16000);
    CHECK(counted.taken == 1);
    CHECK(counted.taking_ns == 3000);
    CHECK(journal.digest.last_steps(2).decision.count() == 0);
    journal.observe(both);
    CHECK(journal.digest.last_steps(1).decision.count() == 0);
    CHECK(journal.digest.all_steps(1).decision.count() == 2);
    journal.observe(snapshot({session(2, "other")}));
    CHECK(journal.digest.all_steps(1).decision.count() == 0);
}

TEST_CASE("times that a client wrote, and that contradict the samplers', count as nothing") {
    Journal journal;
    const auto one = snapshot({session(1, "engine")});
    journal.observe(one);
    journal.writer.write(step_record(1, 0, 9000, 0));       // logits that were not complete
    journal.writer.write(step_record(2, 10000, 9000, 0));   // or later than the commit
    journal.writer.write(step_record(4, 8000, 9000, 100));  // step 1 taken before its commit
    journal.writer.write(step_record(2, 8000, 9000, ~0ULL));
    journal.observe(one);
    CHECK(journal.digest.last_steps(1).decision.count() == 2);
    CHECK(journal.digest.last_steps(1).taken == 0);
}

TEST_CASE(
    "the slowest columns of a minute are told, slowest first, with what they were and what was missed") {
    Journal journal;
    RecentMinutes recent(at(0));
    const auto one = snapshot({session(1, "engine")});
    journal.observe(one);
    for (std::uint32_t i = 1; i <= 50; ++i) journal.writer.write(column_record(1, i, i * 1000));
    journal.writer.write(column_record(7, 99, 1'000'000));  // of a session that is not there
    journal.observe(one);
    journal.writer.write(column_record(1, ~0ULL, 2'000'000));
    journal.observe(one);
    auto slowest = told(recent, journal.digest).at("slowest");
    REQUIRE(slowest.size() == daemon::kSlowestColumns);
    CHECK(slowest.at(0).at("uid") == "18446744073709551615");
    CHECK(slowest.at(0).at("took_us") == 2000);
    CHECK(slowest.at(0).at("waited_us") == 4);
    CHECK(slowest.at(0).at("path") == "race");
    CHECK(slowest.at(0).at("session") == "engine");
    for (std::size_t i = 1; i < slowest.size(); ++i) CHECK(slowest.at(i).at("took_us") == 51 - i);
    CHECK(told(recent, journal.digest).at("journal_entries_lost") == 0);
    // More than the journal holds between two readings.
    for (std::uint64_t i = 0; i < proto::kJournalEntries + 100; ++i)
        journal.writer.write(column_record(1, i, 1));
    for (std::size_t i = 0; i < daemon::kSecondsOfSlowest; ++i) journal.observe(one);
    CHECK(told(recent, journal.digest).at("journal_entries_lost") == 100);
    CHECK(told(recent, journal.digest).at("slowest").at(0).at("took_us") == 0);
    journal.observe(one);
    CHECK(told(recent, journal.digest).at("slowest").empty());
    CHECK(told(recent, journal.digest).at("journal_entries_lost") == 0);
}

TEST_CASE("a minute of seconds in which samplers wrote all that a journal holds takes little memory") {
    Journal journal;
    const auto one = snapshot({session(1, "engine")});
    journal.observe(one);
    const auto allocated = [] {
        const auto all = ::mallinfo2();
        return all.uordblks + all.hblkhd;
    };
    const std::size_t before = allocated();
    for (std::size_t second = 0; second < daemon::kSecondsOfSlowest; ++second) {
        for (std::uint32_t i = 0; i < proto::kJournalEntries; ++i)
            journal.writer.write(column_record(1, i, i * 1000));
        journal.observe(one);
    }
    CHECK(allocated() < before + (std::size_t{1} << 20U));
    const auto slowest = journal.digest.slowest();
    REQUIRE(slowest.size() == daemon::kSlowestColumns);
    CHECK(slowest.front().column.record.sequence_uid == proto::kJournalEntries - 1);
    CHECK(slowest.back().column.record.sequence_uid == proto::kJournalEntries - 1);
}

TEST_CASE("journal entries that are read in several parts belong to the second in which they were read") {
    Journal journal;
    std::uint64_t step = 10;
    for (int part = 0; part < 3; ++part) {
        for (std::size_t i = 0; i < proto::kJournalEntries; ++i, ++step)
            journal.writer.write(step_record(step, 1000, 9000, 0));
        journal.digest.read(journal.plane);
    }
    journal.writer.write(column_record(1, 5, 7000));
    journal.digest.read(journal.plane);
    CHECK(journal.digest.all_steps(1).decision.count() == 0);
    CHECK(journal.digest.slowest().empty());
    const auto one = snapshot({session(1, "engine")});
    journal.digest.close_second(one);
    CHECK(journal.digest.last_steps(1).decision.count() == 3 * proto::kJournalEntries);
    CHECK(journal.digest.all_steps(1).decision.count() == 3 * proto::kJournalEntries);
    CHECK(journal.digest.slowest().size() == 1);
    CHECK(journal.digest.lost() == 0);
    journal.digest.close_second(one);
    CHECK(journal.digest.last_steps(1).decision.count() == 0);
    CHECK(journal.digest.all_steps(1).decision.count() == 3 * proto::kJournalEntries);
}

TEST_CASE("journal entries that were missed are counted for the last minute and in total") {
    Journal journal;
    for (std::size_t i = 0; i < proto::kJournalEntries + 100; ++i)
        journal.writer.write(column_record(1, i, 1));
    journal.observe(snapshot({}));
    CHECK(journal.digest.lost_lately() == 100);
    for (std::size_t i = 0; i < daemon::kSecondsOfSlowest; ++i) journal.observe(snapshot({}));
    CHECK(journal.digest.lost_lately() == 0);
    CHECK(journal.digest.lost() == 100);
}

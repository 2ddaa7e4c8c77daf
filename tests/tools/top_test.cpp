// `croupier top`: what it counts of an instance, and what it lets reach a terminal.
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "testing/daemon_process.h"
#include "testing/small_engine.h"
#include "testing/workplace.h"
#include "tools/printable.h"
#include "tools/top/account.h"
#include "tools/top/frame.h"
#include "tools/top/view_json.h"

using namespace croupier;
using namespace croupier::tools;
using namespace croupier::testing;
using nlohmann::json;
using proto::SessionCounter;

namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

shm::Snapshot snapshot(std::uint64_t tokens, const std::string& name = "replica-0") {
    shm::Snapshot seen;
    seen.instance = "test";
    seen.daemon_alive = true;
    seen.daemon_pid = 77;
    shm::SamplerSnapshot sampler;
    sampler.alive = true;
    sampler.core = 2;
    sampler.columns = tokens;
    sampler.busy_ns = tokens * 1000;
    seen.samplers = {sampler};
    shm::SessionSnapshot session;
    session.id = 7;
    session.name = name;
    session.rank_behind_ns = {0, 2 * kSecond};
    session.counters[static_cast<std::size_t>(SessionCounter::columns_decided)] = tokens;
    session.counters[static_cast<std::size_t>(SessionCounter::steps_taken)] = tokens / 8;
    seen.sessions = {session};
    return seen;
}

proto::StepRecord step_record(std::uint64_t step, std::uint64_t commit, std::uint64_t before_taken) {
    proto::StepRecord record;
    record.session_id = 7;
    record.step = step;
    record.published_ns = commit - 3000;
    record.ready_ns = commit - 1000;
    record.commit_ns = commit;
    record.before_taken_ns = before_taken;
    record.slots = 2;
    record.last_rank = 2;
    record.last_rank_late_ns = 500;
    return record;
}

shm::JournalColumn column_record(std::uint32_t duration, std::uint64_t begin) {
    shm::JournalColumn column;
    column.record.session_id = 7;
    column.record.begin_ns = begin;
    column.record.ready_ns = begin - 40;
    column.record.duration_ns = duration;
    return column;
}

}  // namespace

TEST_CASE("rates are of the interval, and a step's parts of the last seconds") {
    Account account("test");
    std::uint64_t now = 100 * kSecond;
    account.look(snapshot(1000), now);
    // Read in the order of samplers, not of time: step 2 tells when step 0 was taken.
    shm::JournalPart part;
    part.steps = {step_record(2, now + 9000, now + 4500), step_record(0, now + 4000, 0)};
    for (std::uint32_t i = 0; i < 100; ++i) part.columns.push_back(column_record(i, now + i));
    account.add(part);
    now += 2 * kSecond;
    const View view = account.look(snapshot(5000), now);
    REQUIRE(view.sessions.size() == 1);
    const SessionLine& session = view.sessions[0];
    CHECK(session.tokens_per_second == Approx(2000));
    CHECK(session.steps_per_second == Approx(250));
    REQUIRE((session.logits_wait && session.deciding && session.to_be_taken));
    CHECK(session.logits_wait->p50_ns == 2000);
    CHECK(session.deciding->p50_ns == 1000);
    CHECK(session.to_be_taken->p50_ns == 500);
    CHECK(view.samplers[0].columns_per_second == Approx(2000));
    CHECK(view.samplers[0].busy == Approx(0.002));
    REQUIRE(view.slowest.size() == Account::kSlowest);
    CHECK(view.slowest[0].record.duration_ns == 99);
    CHECK(view.slowest[0].session == "replica-0");
    REQUIRE(view.ranks.size() == 1);
    CHECK(view.ranks[0].rank == 1);
    CHECK(view.ranks[0].last_share == Approx(1.0));
    CHECK(view.ranks[0].late->p50_ns == 500);
    CHECK(view.ranks[0].behind_ns == 2 * kSecond);
    // Later all of it is old.
    now += 10 * kSecond;
    const View later = account.look(snapshot(5000), now);
    CHECK(later.slowest.empty());
    CHECK_FALSE(later.sessions[0].deciding);
    CHECK(later.sessions[0].tokens_per_second == 0);
    CHECK(frame_of(later, {80, 0}, 0).back().text.ends_with(" rank 1 is behind for 2.0s"));
}

TEST_CASE("a successor's counters, which begin again, are no negative rates") {
    Account account("test");
    account.look(snapshot(5000), 10 * kSecond);
    const View view = account.look(snapshot(3), 11 * kSecond);
    CHECK(view.sessions[0].tokens_per_second == 0);
    CHECK((view.samplers[0].columns_per_second == 0 && view.samplers[0].busy == 0));
}

TEST_CASE("a frame fits its terminal, whatever the names of sessions are") {
    const std::string name = GENERATE(std::string("replica-0"), std::string("\033]0;mine\a\033[2J\xff\n\r\t"),
                                      std::string(500, 'n'));
    Account account("\033[31minstance");
    account.look(snapshot(0, name), kSecond);
    shm::JournalPart part;
    for (std::uint32_t i = 0; i < 100; ++i) part.columns.push_back(column_record(i, kSecond + i));
    account.add(part);
    shm::Snapshot seen = snapshot(100, name);
    seen.samplers.resize(64, seen.samplers[0]);
    seen.sessions.resize(30, seen.sessions[0]);
    const View view = account.look(seen, 2 * kSecond);
    for (const FrameSize size : {FrameSize{80, 24}, FrameSize{200, 60}, FrameSize{20, 5}, FrameSize{1, 1},
                                 FrameSize{80, 3}, FrameSize{80, 0}}) {
        const auto lines = frame_of(view, size, 0);
        CHECK((size.rows == 0 || lines.size() <= size.rows));
        for (const FrameLine& line : lines) {
            CHECK(line.text.size() <= size.columns);
            CHECK(
                std::all_of(line.text.begin(), line.text.end(), [](char c) { return c >= ' ' && c < 127; }));
        }
    }
    CHECK(frame_of(view, {80, 24}, 0).size() == 24);
    CHECK(json::parse(to_json(view)).at("sessions").size() == 30);
}

TEST_CASE("a frame has totals, names its pairs and shows no column that was fast") {
    Account account("test");
    account.look(snapshot(0), kSecond);
    shm::JournalPart part;
    part.steps = {step_record(0, kSecond + 4000, 0)};
    for (std::uint32_t i = 0; i < 20; ++i) part.columns.push_back(column_record(70'000 + i, kSecond + i));
    part.columns.push_back(column_record(3'000'000, kSecond));
    account.add(part);
    shm::Snapshot seen = snapshot(4000);
    seen.sessions.push_back(seen.sessions[0]);
    seen.sessions[1].id = 8;
    seen.sessions[0].counters[static_cast<std::size_t>(SessionCounter::columns_failed)] = 3;
    const View view = account.look(seen, 2 * kSecond);
    const auto text_of = [&](std::uint64_t slow_ns) {
        std::string text;
        for (const FrameLine& line : frame_of(view, {80, 24}, slow_ns)) text += line.text + "\n";
        return text;
    };
    const std::string shown = text_of(1'000'000);
    INFO(shown);
    CHECK(shown.find("q quit  ? help\n4000 tokens/s, 500.0 steps/s, 3 errors/s, samplers 0% busy    pairs: "
                     "p50/p99\n") != std::string::npos);
    CHECK(shown.find("\n 3.0ms ") != std::string::npos);
    CHECK(shown.find("70us") == std::string::npos);
    CHECK(text_of(0).find("70us") != std::string::npos);
    CHECK(text_of(10'000'000).find("slow") == std::string::npos);
    CHECK(stat_line(view).find("4000") != std::string::npos);
    CHECK(stat_line(view).find("1.0us/1.0us") != std::string::npos);
}

TEST_CASE("a line of a frame that is cut says so") {
    Account account("test");
    shm::JournalPart part;
    part.columns = {column_record(3'000'000, kSecond)};
    part.columns[0].record.marks = proto::kColumnReadEarly | proto::kColumnTail | proto::kColumnCorrected;
    account.add(part);
    const View view = account.look(snapshot(0), kSecond);
    const auto cut = frame_of(view, {80, 24}, 0);
    const auto whole = frame_of(view, {200, 24}, 0);
    CHECK(cut.back().text.size() == 80);
    CHECK(cut.back().text.back() == '~');
    CHECK(whole.back().text.ends_with(", several proposals"));
    for (const FrameLine& line : help_frame({80, 24})) CHECK(line.text.find('~') == std::string::npos);
    CHECK(help_frame({10, 3}).size() == 3);
}

TEST_CASE("in JSON a slow column's sequence is text, and its notes are a list") {
    Account account("test");
    shm::JournalPart part;
    part.columns = {column_record(3'000'000, kSecond)};
    part.columns[0].record.sequence_uid = 8667540643943873161;
    part.columns[0].record.marks = proto::kColumnReadEarly | proto::kColumnTail;
    account.add(part);
    const json column = json::parse(to_json(account.look(snapshot(0), kSecond))).at("slowest_columns").at(0);
    CHECK(column.at("sequence") == "8667540643943873161");
    CHECK(column.at("notes").is_array());
    CHECK(column.at("notes").size() == 2);
}

TEST_CASE("what is no printable text is written out") {
    CHECK(printable("replica-0") == "replica-0");
    CHECK(printable("\033[2J\\\xff") == "\\x1b[2J\\x5c\\xff");
}

TEST_CASE("croupier top prints a frame of a real instance, which is alive, dead or not there") {
    DaemonProcess daemon;
    const Workplace place;
    const std::string where =
        "-i " + daemon.instance() + " --shm-dir " + daemon.shm_directory() + " --interval 0.1";
    const Ended empty = place.run("top " + where);
    CHECK(empty.status == 0);
    CHECK(empty.output.find("no sessions") != std::string::npos);
    SmallEngine engine(daemon.endpoint(), "engine");
    engine.admit(8);
    engine.steps(3);
    const Ended shown = place.run("top --once " + where);
    INFO(shown.output);
    CHECK(shown.status == 0);
    CHECK(shown.output.find("\nengine ") != std::string::npos);
    const json frame = json::parse(place.run("top --once --json " + where).output);
    CHECK(frame.at("daemon").at("alive") == true);
    CHECK(frame.at("sessions").at(0).at("live_sequences") == 8);
    CHECK(frame.at("samplers").size() == 2);
    CHECK(frame.at("daemon").at("stopped") == false);
    daemon.signal(SIGSTOP);
    REQUIRE(eventually([&] { return is_stopped(daemon.pid()); }));
    const Ended stopped = place.run("top --once " + where);
    const json stopped_frame = json::parse(place.run("top --once --json " + where).output);
    daemon.signal(SIGCONT);
    CHECK(stopped.output.find("is STOPPED; kill -CONT " + std::to_string(daemon.pid())) != std::string::npos);
    CHECK(stopped_frame.at("daemon").at("stopped") == true);
    const Ended lines = place.run("stat --count 2 " + where);
    INFO(lines.output);
    CHECK(lines.status == 0);
    CHECK(std::count(lines.output.begin(), lines.output.end(), '\n') == 3);
    CHECK(lines.output.starts_with("  tokens/s   steps/s  errors/s"));
    daemon.kill_now();
    CHECK(place.run("stat --count 1 " + where).status == 3);
    CHECK(place.run("stat -i nobody --interval 0.1").status == 1);
    const Ended dead = place.run("top --once " + where);
    CHECK(dead.status == 3);
    CHECK(dead.output.find("is GONE for") != std::string::npos);
    const Ended nobody = place.run("top --once -i nobody --interval 0.1");
    CHECK(nobody.status == 1);
    CHECK(nobody.output.find("is croupierd running, with the instance name 'nobody'?") != std::string::npos);
    for (const char* wrong : {"0", "nan", "-nan", "inf", "soon"}) {
        const Ended refused = place.run(std::string("top --once --interval ") + wrong);
        CHECK((refused.status != 0 && refused.output.find("--interval") != std::string::npos));
    }
}

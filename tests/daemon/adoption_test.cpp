// What a daemon finds in /dev/shm when it starts: it takes in the living and leaves alone what it does not
// know.
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "shm/segment.h"
#include "shm/session_record.h"
#include "testing/child_process.h"
#include "testing/daemon_process.h"
#include "testing/shared_object.h"
#include "testing/small_engine.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

void overwrite(const std::string& path, std::size_t offset, std::uint32_t value) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file.write(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

TEST_CASE(
    "a session whose engine and daemon died together is resumed within its grace and has lost nothing") {
    DaemonProcess daemon;
    const Shared<std::atomic<bool>> decided;
    // Before this process has an engine of its own: a fork takes none of ZMQ's threads along.
    auto engine = ChildProcess::start([&] {
        SmallEngine doomed(daemon.endpoint(), "engine");
        doomed.admit(8);
        doomed.steps(3);
        doomed.submit();
        doomed.write();
        if (!doomed.counted(32)) return 1;
        *decided = true;
        ::raise(SIGSTOP);
        return 0;
    });
    REQUIRE(eventually([&] { return decided->load(); }));
    engine.kill_and_reap();
    daemon.restart_after_kill();
    EngineShape shape;
    shape.resume = true;
    SmallEngine successor(daemon.endpoint(), "engine", shape);
    REQUIRE(successor.session().resumed());
    SmallEngine undisturbed(daemon.endpoint(), "undisturbed");
    undisturbed.admit(8);
    undisturbed.steps(5);
    // The step that nobody took, and one more.
    for (const std::size_t position : {3U, 4U}) {
        if (position == 4) {
            successor.submit();
            successor.write();
        }
        const auto step = successor.session().wait(20000);
        REQUIRE(step);
        REQUIRE(step->decisions.size() == 8);
        for (const auto& decision : step->decisions) {
            CHECK(decision.output_index == position);
            CHECK(decision.token == undisturbed.streams().at(decision.uid).at(position));
        }
    }
    CHECK_THAT(daemon.log(), Contains("session engine") && Contains("its client is gone, it may resume for"));
}

TEST_CASE(
    "a daemon that starts serves the sessions of living clients and removes those that are not resumed "
    "within the grace") {
    DaemonProcess daemon(kTwoSamplers, "sessions: {reattach_grace_ms: 300}");
    SmallEngine living(daemon.endpoint(), "living");
    living.admit(8);
    living.step();
    std::string dead_path;
    {
        SmallEngine dead(daemon.endpoint(), "dead");
        dead_path = dead.segment_path();
        daemon.kill_now();
    }
    REQUIRE(std::filesystem::exists(dead_path));
    daemon.start();
    REQUIRE(daemon.await_ready());
    CHECK(eventually([&] { return !std::filesystem::exists(dead_path); }));
    CHECK_THAT(daemon.log(),
               Contains("session dead") && Contains("its client is gone and did not come back"));
    CHECK(std::filesystem::exists(living.segment_path()));
    living.steps(2);
    CHECK_THAT(daemon.log(), Contains("session living") && Contains("continues: its client lives"));
    // The name is still held: what was adopted is a session like any other.
    CHECK_THAT(failure_of([&] { SmallEngine(daemon.endpoint(), "living"); }), Contains("already_held"));
}

TEST_CASE("a segment whose session had ended is removed by the daemon that starts") {
    DaemonProcess daemon;
    std::string path;
    {
        SmallEngine ended(daemon.endpoint(), "ended");
        path = ended.segment_path();
        daemon.kill_now();
        const auto segment = shm::Segment::attach(path, shm::Access::read_write);
        segment.value().header().state.store(proto::SessionState::fenced);
    }
    daemon.start();
    REQUIRE(daemon.await_ready());
    CHECK_FALSE(std::filesystem::exists(path));
    CHECK_THAT(daemon.log(), Contains("removing " + path + ": its session has ended"));
}

TEST_CASE("a daemon can be started right after it was killed, repeatedly") {
    DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine");
    engine.admit(4);
    for (int round = 0; round < 5; ++round) {
        daemon.restart_after_kill();
        engine.step();
    }
    CHECK(daemon.files_in_shm() == 3);
}

TEST_CASE("a damaged or foreign segment is left alone and named in the log, and the others go on") {
    DaemonProcess daemon;
    SmallEngine living(daemon.endpoint(), "living");
    auto damaged = std::make_unique<SmallEngine>(daemon.endpoint(), "damaged");
    auto foreign = std::make_unique<SmallEngine>(daemon.endpoint(), "foreign");
    const std::string damaged_path = damaged->segment_path();
    const std::string foreign_path = foreign->segment_path();
    living.admit(8);
    living.step();
    daemon.kill_now();
    overwrite(damaged_path, offsetof(proto::SegmentHeader, geometry), 77);
    overwrite(foreign_path, offsetof(proto::SegmentHeader, version), 99);
    const std::string stump = daemon.shm_directory() + "/croupier-" + daemon.instance() + "-12345.seg";
    std::ofstream(stump) << "no segment at all";
    daemon.start();
    REQUIRE(daemon.await_ready());
    for (const auto& path : {damaged_path, foreign_path, stump}) {
        CHECK_THAT(daemon.log(), Contains("leaving " + path + " alone"));
    }
    CHECK(std::filesystem::exists(damaged_path));
    CHECK(std::filesystem::exists(foreign_path));
    CHECK_THAT(daemon.log(), Contains("version") && Contains("99"));
    living.steps(2);
    // Gigabytes of a session that nobody serves stay as long as somebody holds them, and no longer.
    damaged.reset();
    foreign.reset();
    CHECK(eventually([&] { return daemon.files_in_shm() == 3; }));
}

TEST_CASE("a segment whose header names another session goes with the client that holds it") {
    DaemonProcess daemon;
    auto renamed = std::make_unique<SmallEngine>(daemon.endpoint(), "renamed");
    const std::string path = renamed->segment_path();
    daemon.kill_now();
    overwrite(path, offsetof(proto::SegmentHeader, name), 'x');
    daemon.start();
    REQUIRE(daemon.await_ready());
    CHECK_THAT(daemon.log(), Contains("leaving " + path + " alone"));
    CHECK(std::filesystem::exists(path));
    renamed.reset();
    CHECK(eventually([&] { return daemon.files_in_shm() == 1; }));
}

TEST_CASE("a segment whose owner a dead daemon had not yet recorded is removed") {
    DaemonProcess daemon;
    std::string path;
    {
        SmallEngine unborn(daemon.endpoint(), "unborn");
        path = unborn.segment_path();
        daemon.kill_now();
    }
    REQUIRE(std::filesystem::remove(shm::record_path(path)));
    daemon.start();
    REQUIRE(daemon.await_ready());
    CHECK_FALSE(std::filesystem::exists(path));
    CHECK(daemon.files_in_shm() == 1);
}

TEST_CASE("a second daemon of the same instance is refused, and the first one is named") {
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine");
    engine.admit(8);
    engine.step();
    const std::size_t files = daemon.files_in_shm();
    const Ended second = run_croupierd(daemon, {"--config", daemon.config_path()});
    CHECK(second.status == 1);
    CHECK_THAT(second.output, Contains("already runs with pid " + std::to_string(daemon.pid())));
    CHECK(daemon.files_in_shm() == files);
    engine.steps(2);
}

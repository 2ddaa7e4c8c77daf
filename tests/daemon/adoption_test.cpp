// What a daemon finds in /dev/shm when it starts: it takes in the living and leaves alone what it does not
// know.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "shm/segment.h"
#include "tests/daemon/daemon_process.h"
#include "tests/daemon/small_engine.h"

using namespace croupier;
using namespace croupier::test;
using Catch::Contains;

namespace {

void overwrite(const std::string& path, std::size_t offset, std::uint32_t value) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file.write(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

TEST_CASE("a daemon that starts removes the segments of dead clients and goes on with the living") {
    DaemonProcess daemon;
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
    CHECK_FALSE(std::filesystem::exists(dead_path));
    CHECK(std::filesystem::exists(living.segment_path()));
    living.steps(2);
    CHECK_THAT(daemon.log(), Contains("session living") && Contains("goes on: its client lives"));
    // The name is still held: what was adopted is a session like any other.
    CHECK_THAT(failure_of([&] { SmallEngine(daemon.endpoint(), "living"); }), Contains("already_held"));
}

TEST_CASE("a daemon can be started the moment after it was killed, again and again") {
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
    SmallEngine damaged(daemon.endpoint(), "damaged");
    SmallEngine foreign(daemon.endpoint(), "foreign");
    living.admit(8);
    living.step();
    daemon.kill_now();
    overwrite(damaged.segment_path(), offsetof(proto::SegmentHeader, geometry), 77);
    overwrite(foreign.segment_path(), offsetof(proto::SegmentHeader, version), 99);
    const std::string stump = "/dev/shm/croupier-" + daemon.instance() + "-12345.seg";
    std::ofstream(stump) << "no segment at all";
    daemon.start();
    REQUIRE(daemon.await_ready());
    for (const auto& path : {damaged.segment_path(), foreign.segment_path(), stump}) {
        CHECK(std::filesystem::exists(path));
        CHECK_THAT(daemon.log(), Contains("leaving " + path + " alone"));
    }
    CHECK_THAT(daemon.log(), Contains("version") && Contains("99"));
    living.steps(2);
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

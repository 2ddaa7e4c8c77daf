// What nobody holds any more goes, whatever version it is of: at the daemon's hands, and by `croupier
// cleanup`.
#include "tools/status/cleanup.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <memory>

#include "shm/segment.h"
#include "tests/daemon/daemon_process.h"
#include "tests/daemon/small_engine.h"

using namespace croupier;
using namespace croupier::test;
using Catch::Contains;

namespace {

void make_other_version(const std::string& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(offsetof(proto::SegmentHeader, version));
    const std::uint32_t version = 99;
    file.write(reinterpret_cast<const char*>(&version), sizeof(version));
}

}  // namespace

TEST_CASE("a segment of another version stays while a client holds it, and goes when nobody does") {
    DaemonProcess daemon;
    auto held = std::make_unique<SmallEngine>(daemon.endpoint(), "held");
    const std::string held_path = held->segment_path();
    std::string free_path;
    {
        SmallEngine free(daemon.endpoint(), "free");
        free_path = free.segment_path();
        daemon.kill_now();
    }
    make_other_version(held_path);
    make_other_version(free_path);
    daemon.start();
    REQUIRE(daemon.await_ready());
    REQUIRE(eventually([&] { return !std::filesystem::exists(free_path); }));
    CHECK(std::filesystem::exists(held_path));
    CHECK(daemon.says("leaving " + held_path + " alone"));
    held.reset();
    CHECK(eventually([&] { return !std::filesystem::exists(held_path); }));
    CHECK(daemon.says("removing " + held_path + ": it is of another version"));
}

TEST_CASE("cleanup under a live daemon removes what nobody holds, and nothing else") {
    const DaemonProcess daemon;
    SmallEngine living(daemon.endpoint(), "living");
    living.admit(8);
    living.step();
    const std::string stump = daemon.shm_directory() + "/croupier-" + daemon.instance() + "-12345.seg";
    std::ofstream(stump) << "no segment at all";
    REQUIRE(tools::clean_up(daemon.shm_directory(), daemon.instance()));
    CHECK_FALSE(std::filesystem::exists(stump));
    // The living session's segment and its owner's record, the plane and the bell.
    CHECK(daemon.files_in_shm() == 4);
    living.steps(2);
}

TEST_CASE("cleanup leaves a segment of another version that a live client holds") {
    DaemonProcess daemon;
    SmallEngine held(daemon.endpoint(), "held");
    daemon.kill_now();
    make_other_version(held.segment_path());
    REQUIRE(tools::clean_up(daemon.shm_directory(), daemon.instance()));
    CHECK(std::filesystem::exists(held.segment_path()));
}

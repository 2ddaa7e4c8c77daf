// Whatever another user of the host puts into shared memory: the daemon neither opens nor trips over it.
#include <fcntl.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "shm/snapshot.h"
#include "testing/daemon_process.h"
#include "testing/small_engine.h"
#include "tests/daemon/control_peer.h"
#include "tests/shm/second_user.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;
using shm::as_nobody;
using shm::can_change_user;

namespace {

std::string path_of(const Sandbox& sandbox, const std::string& end) {
    return sandbox.shm_directory() + "/croupier-" + sandbox.instance() + end;
}

// So many of the attempts succeeded, by a user who owns nothing here.
int squat(const Sandbox& sandbox) {
    return as_nobody([&] {
        int made = 0;
        made += ::mkfifo(path_of(sandbox, "-1.seg").c_str(), 0666) == 0;
        made += ::symlink("/etc/passwd", path_of(sandbox, "-2.seg").c_str()) == 0;
        made += ::mkdir(path_of(sandbox, "-3.seg").c_str(), 0777) == 0;
        for (const char* end : {".plane", "-4.seg"}) {
            const int fd = ::open(path_of(sandbox, end).c_str(), O_CREAT | O_EXCL | O_RDWR, 0666);
            made += fd >= 0;
        }
        return made;
    });
}

bool answers_statistics(const Sandbox& sandbox) {
    ControlPeer peer(sandbox.endpoint());
    flatbuffers::FlatBufferBuilder builder;
    wire::finish(builder, 9, wire::CreateStatistics(builder));
    peer.send(builder);
    const wire::Message* answer = peer.receive();
    return answer != nullptr && answer->body_as_StatisticsReply() != nullptr;
}

}  // namespace

TEST_CASE("another user can put nothing where the daemon looks for its files, before its start or after") {
    if (!can_change_user()) return;
    DaemonProcess daemon;
    CHECK(squat(daemon) == 0);
    CHECK(answers_statistics(daemon));
    REQUIRE(daemon.terminate() == 0);
    CHECK(squat(daemon) == 0);
    daemon.start();
    REQUIRE(daemon.await_ready());
    SmallEngine engine(daemon.endpoint(), "engine");
    engine.admit(4);
    engine.step();
}

TEST_CASE("another user can neither list the segments nor open the plane or a segment") {
    if (!can_change_user()) return;
    DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine");
    CHECK(as_nobody([&] {
              int opened = 0;
              std::error_code refused;
              opened += std::filesystem::directory_iterator(daemon.shm_directory(), refused) !=
                        std::filesystem::directory_iterator();
              for (const auto& path : {path_of(daemon, ".plane"), engine.segment_path()}) {
                  opened += ::open(path.c_str(), O_RDONLY) >= 0;
              }
              return opened;
          }) == 0);
}

TEST_CASE("what is no file of the daemon's own is left alone and named, and neither hangs nor ends it") {
    if (!can_change_user()) return;
    DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine");
    engine.admit(4);
    engine.step();
    // A sound segment that another user owns, its client's byte locked: as if it had been moved here.
    shm::SegmentSpec spec{daemon.shm_directory(),       daemon.instance(),  4711, "foreign", {},
                          shm::FileOwnership{0666, ""}, shm::Hugepages::off};
    spec.geometry = shm::Segment::attach(engine.segment_path(), shm::Access::read_only).value().geometry();
    auto foreign = shm::Segment::create(spec);
    REQUIRE(foreign);
    foreign.value().release(shm::Role::daemon);
    REQUIRE(foreign.value().hold(shm::Role::client));
    REQUIRE(::chown(foreign.value().path().c_str(), shm::kNobody, shm::kNobody) == 0);
    REQUIRE(::mkfifo(path_of(daemon, "-4712.seg").c_str(), 0666) == 0);
    CHECK(answers_statistics(daemon));
    daemon.restart_after_kill();
    CHECK(daemon.says("leaving " + foreign.value().path() + " alone"));
    CHECK(daemon.says("leaving " + path_of(daemon, "-4712.seg") + " alone"));
    CHECK_FALSE(daemon.says("session foreign"));
    engine.steps(2);
}

TEST_CASE("a directory that others may write to, or that another user made, is refused at the start") {
    const auto refused = [](const std::string& directory, const std::string& key = "shm") {
        const Sandbox sandbox;
        sandbox.write_config(kTwoSamplers, key == "shm" ? "shm: {dir: \"" + directory + "\"}"
                                                        : "run_dir: \"" + directory + "\"");
        const Ended ended = run_croupierd(sandbox, {"--config", sandbox.config_path()});
        CHECK(ended.status == 1);
        return ended.output.substr(std::min(ended.output.size(), ended.output.find("cannot start")));
    };
    CHECK_THAT(refused("/dev/shm"), Contains("shm.dir") && Contains("mode 1777"));
    const Sandbox place;
    const std::string open_to_all = place.directory() + "/open";
    REQUIRE(::mkdir(open_to_all.c_str(), 0700) == 0);
    REQUIRE(::chmod(open_to_all.c_str(), 0777) == 0);
    CHECK_THAT(refused(open_to_all, "run_dir"), Contains("run_dir") && Contains("lets others write to it"));
    CHECK(std::filesystem::is_empty(open_to_all));
    const std::string file = place.directory() + "/file";
    std::ofstream(file) << "content";
    CHECK_THAT(refused(file, "run_dir"), Contains("run_dir " + file + " is no folder"));
    if (!can_change_user()) return;
    const std::string squatted = place.directory() + "/squatted";
    REQUIRE(::mkdir(squatted.c_str(), 0700) == 0);
    REQUIRE(::chown(squatted.c_str(), shm::kNobody, shm::kNobody) == 0);
    CHECK_THAT(refused(squatted), Contains("shm.dir") && Contains("uid 65534"));
    CHECK_THAT(refused(squatted, "run_dir"), Contains("run_dir " + squatted + " belongs to uid 65534"));
    const std::string link = place.directory() + "/link";
    std::filesystem::create_directory_symlink("/dev/shm", link);
    CHECK_THAT(refused(link), Contains(link + ": it is a link or no folder"));
}

// A client may write to its own segment, and may cut it off: that costs it its session, and nobody else
// anything.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "shm/file.h"
#include "shm/plane.h"
#include "shm/segment.h"
#include "testing/child_process.h"
#include "testing/daemon_process.h"
#include "testing/small_engine.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

struct Stage {
    DaemonProcess daemon;
    SmallEngine victim{daemon.endpoint(), "victim"};
    pid_t pid = daemon.pid();

    Stage() {
        victim.admit(4);
        victim.steps(2);
    }
    void victim_goes_on() {
        victim.steps(3);
        CHECK(::kill(pid, 0) == 0);
        CHECK(daemon.sampler_restarts() == 0);
    }
};

shm::Segment attach(const std::string& path) {
    return shm::Segment::attach(path, shm::Access::read_write).value();
}

// A client with a step in flight, so that samplers look at its segment, who then does `deed` and stands
// still.
template <typename Deed>
ChildProcess client_who(const DaemonProcess& daemon, const std::string& name, Deed&& deed) {
    auto child = ChildProcess::start([&] {
        try {
            SmallEngine engine(daemon.endpoint(), name);
            engine.admit(4);
            engine.step();
            engine.submit();
            deed(engine.segment_path());
            ::raise(SIGSTOP);
        } catch (const std::exception& failure) {
            std::fprintf(stderr, "child: %s\n", failure.what());
        }
        return 1;
    });
    REQUIRE(child.wait_until_stopped());
    return child;
}

}  // namespace

TEST_CASE("an id or a name that a client writes over its header is not believed") {
    Stage stage;
    SmallEngine liar(stage.daemon.endpoint(), "liar");
    const auto victim_id = attach(stage.victim.segment_path()).id();
    for (const std::uint64_t id : {std::uint64_t{12345}, victim_id, std::uint64_t{0}}) {
        EngineShape shape;
        shape.takeover = true;
        const shm::Segment own = attach(liar.segment_path());
        own.header().session_id = id;
        std::strcpy(own.header().name, "victim");
        CHECK(failure_of([&] { liar = SmallEngine(stage.daemon.endpoint(), "liar", shape); }).empty());
        stage.victim_goes_on();
    }
    CHECK_THAT(failure_of([&] { SmallEngine(stage.daemon.endpoint(), "victim"); }),
               Contains("already_held") && Contains("victim"));
}

TEST_CASE("a client that scribbles over its header is not taken for another by the next daemon") {
    Stage stage;
    const auto victim_id = attach(stage.victim.segment_path()).id();
    auto liar = client_who(stage.daemon, "liar", [&](const std::string& path) {
        const shm::Segment own = attach(path);
        proto::SegmentHeader& header = own.header();
        header.session_id = victim_id;
        std::strcpy(header.name, "victim");
        header.checksum = proto::header_checksum(header);
    });
    stage.daemon.restart_after_kill();
    stage.victim.steps(3);
    CHECK(stage.daemon.says("alone: its header says that it is session " + std::to_string(victim_id)));
}

TEST_CASE("a client that cuts its segment off ends its own session, by name, and no other") {
    const off_t left = GENERATE(off_t{0}, off_t{proto::kHeaderBytes}, off_t{65536});
    Stage stage;
    auto cutter = client_who(stage.daemon, "cutter", [&](const std::string& path) {
        if (::truncate(path.c_str(), left) != 0) throw std::runtime_error("cannot truncate");
    });
    REQUIRE(eventually([&] { return stage.daemon.says("its segment was cut off"); }));
    CHECK_THAT(stage.daemon.log(), Contains("session cutter") && Contains("cut off"));
    stage.victim_goes_on();
}

TEST_CASE("segments that are cut off again and again, and grown again, end one session each") {
    Stage stage;
    for (int round = 0; round < 10; ++round) {
        auto cutter =
            client_who(stage.daemon, "cutter-" + std::to_string(round), [&](const std::string& path) {
                // By descriptor: the daemon may have seen the cut, and removed the name, before it grows.
                const shm::FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
                const auto size = static_cast<off_t>(std::filesystem::file_size(path));
                if (::ftruncate(file.get(), 0) != 0) throw std::runtime_error("cannot truncate");
                if (::ftruncate(file.get(), size) != 0) throw std::runtime_error("cannot grow");
            });
        stage.victim_goes_on();
    }
}

TEST_CASE("lost pages of an ended session are not attributed to the session that took over its table row") {
    Stage stage;
    const auto plane =
        shm::Plane::attach(stage.daemon.shm_directory(), stage.daemon.instance(), shm::Access::read_write);
    const auto victim_id = attach(stage.victim.segment_path()).id();
    for (auto& row : plane.value().header().sessions) {
        // As a sampler says it that looked at the row before it was given away.
        if (row.session_id.load() == victim_id) row.lost.store(1);
    }
    stage.daemon.await_housekeeping();
    stage.victim_goes_on();
}

TEST_CASE("only the daemon's own user can open the plane") {
    const DaemonProcess daemon;
    struct stat status {};
    const std::string path = shm::plane_path(daemon.shm_directory(), daemon.instance());
    REQUIRE(::stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777U) == 0600U);
}

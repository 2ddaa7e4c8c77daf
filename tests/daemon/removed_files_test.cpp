// The daemon's files are removed under it, as systemd-logind does with a user's files below /dev/shm when he
// logs out: sessions go on, also over deaths, and who cannot go on is told why.
#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "shm/segment.h"
#include "testing/daemon_process.h"
#include "testing/file_text.h"
#include "testing/small_engine.h"
#include "tests/daemon/http_peer.h"
#include "tests/daemon/loopback.h"
#include "tests/daemon/stand_in_process.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

struct Decoding {
    Decoding() {
        engine.admit(8);
        engine.steps(2);
    }

    void log_out() const { std::filesystem::remove_all(daemon.shm_directory()); }
    ChildProcess stand_in() const {
        return start_stand_in(engine.segment_path(), daemon.directory() + "/stand-in.log");
    }

    DaemonProcess daemon;
    SmallEngine engine{daemon.endpoint(), "engine"};
    // Before the daemon's files are gone.
    std::array<pid_t, 2> samplers = {daemon.sampler_pid(0), daemon.sampler_pid(1)};
};

Streams undisturbed(int steps) {
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "undisturbed");
    engine.admit(8);
    engine.steps(steps);
    return engine.streams();
}

}  // namespace

TEST_CASE_METHOD(Decoding, "a session whose file was removed outlives all samplers that served it") {
    log_out();
    for (const pid_t sampler : samplers) {
        engine.submit();
        ::kill(sampler, SIGKILL);
        engine.write();
        engine.collect();
        engine.steps(2);
    }
    // None of those that were there when the files were removed.
    for (const pid_t sampler : samplers) CHECK(eventually([&] { return ::kill(sampler, 0) != 0; }));
    CHECK(engine.streams() == undisturbed(8));
    CHECK(eventually([&] { return daemon.says("its file was removed from " + daemon.shm_directory()); }));
    CHECK(eventually([&] { return daemon.says("this daemon's files were removed"); }));
    CHECK(daemon.says("RemoveIPC=no"));
}

TEST_CASE_METHOD(Decoding, "a daemon whose files were removed opens new sessions, which later daemons find") {
    log_out();
    SmallEngine later(daemon.endpoint(), "later");
    later.admit(4);
    later.steps(2);
    daemon.kill_now();
    daemon.start();
    REQUIRE(daemon.await_ready());
    later.steps(2);
    CHECK_THAT(
        failure_of([&] {
            engine.submit();
            engine.collect();
        }),
        Contains("daemon_gone") && Contains("no later one can find the session") && Contains("RemoveIPC=no"));
}

TEST_CASE_METHOD(Decoding, "a stand-in decides on when daemon and files are gone, whoever of it dies") {
    ChildProcess beside = stand_in();
    log_out();
    daemon.kill_now();
    engine.steps(3);
    // One that was opened before goes on after the first one's death; a daemon that starts takes nothing
    // away.
    daemon.start();
    REQUIRE(daemon.await_ready());
    engine.steps(3);
    CHECK(engine.streams() == undisturbed(8));
    CHECK(beside.running());
}

TEST_CASE("a daemon that stops leaves the files of one that was started after a logout had removed its own") {
    DaemonProcess first;
    // Also the runtime folder, which goes with the user's last session.
    std::filesystem::remove_all(first.shm_directory());
    const std::string lock = first.directory() + "/" + first.instance() + ".lock";
    const std::string socket = first.directory() + "/control.sock";
    for (const std::string& path : {lock, socket, socket + ".lock"}) REQUIRE(std::filesystem::remove(path));
    const std::string log = first.directory() + "/second.log";
    const ChildProcess second =
        ChildProcess::execute({CROUPIERD_PATH, "--config", first.config_path()}, log, SIGTERM);
    REQUIRE(eventually([&] { return text_of(log).value_or("").find("event=ready ") != std::string::npos; }));
    CHECK(first.terminate() == 0);
    for (const std::string& path : {lock, socket, socket + ".lock"}) {
        INFO(path);
        CHECK(std::filesystem::exists(path));
    }
    REQUIRE(shm::Plane::attach(first.shm_directory(), first.instance(), shm::Access::read_only));
    CHECK(first.plane().header().daemon_pid == second.pid());
    SmallEngine engine(first.endpoint(), "engine");
    engine.admit(4);
    engine.steps(2);
}

TEST_CASE("a daemon whose control socket is removed or replaced says so, and is not ready") {
    const bool is_replaced = GENERATE(false, true);
    Watched watched;
    const std::string socket = watched.daemon.directory() + "/control.sock";
    CHECK_THAT(http_get(watched.port, "/readyz"), Contains("200 OK"));
    REQUIRE(std::filesystem::remove(socket));
    if (is_replaced) std::ofstream(socket) << "another program's";
    REQUIRE(eventually(
        [&] { return watched.daemon.says("the control socket ipc://" + socket + " was removed"); }));
    CHECK(watched.daemon.says("event=files_removed"));
    CHECK_THAT(http_get(watched.port, "/readyz"),
               Contains("503") && Contains("the control socket was removed"));
    // An open session needs none.
    watched.engine.admit(4);
    watched.engine.steps(2);
    CHECK(watched.daemon.terminate() == 0);
    CHECK(std::filesystem::exists(socket) == is_replaced);
}

// The log belongs to the daemon: a peer neither forges lines in it, nor fills it, nor stops the daemon by it.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>

#include "testing/daemon_process.h"
#include "testing/small_engine.h"
#include "tests/daemon/control_peer.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;
using flatbuffers::FlatBufferBuilder;

namespace {

void open_named(ControlPeer& peer, const std::string& name) {
    FlatBufferBuilder builder;
    wire::finish(builder, 1,
                 wire::CreateOpenDirect(builder, name.c_str(), 500, 1, 8, 2, 0, 64, 8, 64, 4, 4, 0));
    peer.send(builder);
    REQUIRE(peer.receive() != nullptr);
}

// Starts the daemon again with a pipe for its log, and returns the end that is read.
int start_with_pipe(DaemonProcess& daemon) {
    REQUIRE(daemon.terminate() == 0);
    const std::string log = daemon.directory() + "/log";
    REQUIRE(::unlink(log.c_str()) == 0);
    REQUIRE(::mkfifo(log.c_str(), 0600) == 0);
    const int reader = ::open(log.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    REQUIRE(reader >= 0);
    daemon.start();
    return reader;
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

}  // namespace

TEST_CASE("a refused name with newlines stays on one line of the log, and a huge one on a short one") {
    const DaemonProcess daemon;
    ControlPeer peer(daemon.endpoint());
    open_named(peer, "x\n2026-01-01T00:00:00 critical [1] forged line\n");
    CHECK_THAT(daemon.log(), !Contains("\n2026-01-01T00:00:00 critical"));
    CHECK_THAT(daemon.log(), Contains("x\\n2026"));
    const std::size_t before = daemon.log().size();
    open_named(peer, std::string(16 << 20U, 'y'));
    CHECK(daemon.log().size() - before < 2000);
}

TEST_CASE("a flood of refused messages writes some lines of log and says how many it left out") {
    const DaemonProcess daemon;
    ControlPeer peer(daemon.endpoint());
    for (int i = 0; i < 3000; ++i) {
        peer.send("junk", 4);
        REQUIRE(peer.receive() != nullptr);
    }
    const std::string log = daemon.log();
    CHECK(std::count(log.begin(), log.end(), '\n') < 1500);
    CHECK(eventually([&] {
        peer.send("junk", 4);
        return peer.receive() != nullptr &&
               daemon.says("more lines of the event message_refused were left out");
    }));
    CHECK_THAT(daemon.log(),
               Contains(" of_event=message_refused ") &&
                   Contains(" socket=control peer=\"uid " + std::to_string(::geteuid()) + "\""));
}

TEST_CASE("every line of a daemon whose samplers die while somebody floods it is one object of JSON") {
    DaemonProcess daemon(kTwoSamplers, "log: {level: debug, format: json}");
    SmallEngine engine(daemon.endpoint(), "engine");
    engine.admit(4);
    ControlPeer peer(daemon.endpoint());
    for (int i = 0; i < 500; ++i) {
        peer.send("junk", 4);
        REQUIRE(peer.receive() != nullptr);
        if (i % 100 == 0) ::kill(daemon.sampler_pid(i % 200 == 0 ? 0 : 1), SIGKILL);
    }
    open_named(peer, "x\n{\"event\":\"forged\"}\xc2\x9b");
    engine.steps(20);
    REQUIRE(eventually([&] { return daemon.says("\"lines_left_out\""); }));
    daemon.restart_after_kill();
    engine.steps(20);
    REQUIRE(daemon.terminate() == 0);
    const auto lines = lines_of(daemon.log());
    CHECK(lines.size() > 100);
    for (const std::string& line : lines) {
        INFO(line);
        const auto object = nlohmann::json::parse(line, nullptr, false);
        REQUIRE(object.is_object());
        CHECK(object["event"] != "forged");
        for (const char* key : {"time", "level", "pid", "event", "message"}) CHECK(object.contains(key));
    }
    for (const char* event : {"ready", "sampler_lost", "session_opened", "session_adopted", "stopped"}) {
        CHECK(daemon.says(std::string("\"event\":\"") + event + "\""));
    }
}

TEST_CASE("samplers log in the form that the configuration has, from their start and after a reload") {
    DaemonProcess daemon(kTwoSamplers, "log: {level: info, format: json}");
    CHECK_FALSE(daemon.says("time="));
    daemon.write_config(kTwoSamplers, "log: {level: info, format: text}");
    daemon.signal(SIGHUP);
    REQUIRE(eventually([&] { return daemon.says("event=reloaded"); }));
    // Each has been looked at since.
    daemon.await_housekeeping();
    const std::string before = daemon.log();
    // What a sampler says itself: it cannot map a session whose file is cut off.
    SmallEngine engine(daemon.endpoint(), "cut");
    engine.admit(1);
    REQUIRE(::truncate(engine.session().segment_path().c_str(), 4096) == 0);
    REQUIRE(eventually([&] { return daemon.says("event=session_ended"); }));
    for (const std::string& line : lines_of(daemon.log().substr(before.size())))
        CHECK(line.starts_with("time="));
}

TEST_CASE("a SIGHUP that is not the supervisor's changes nothing in a sampler") {
    const DaemonProcess daemon;
    ::kill(daemon.sampler_pid(0), SIGHUP);
    sigval value{};
    value.sival_int = 0x101;
    ::sigqueue(daemon.sampler_pid(1), SIGHUP, value);
    SmallEngine engine(daemon.endpoint(), "engine");
    engine.admit(4);
    engine.steps(5);
    CHECK(daemon.sampler_restarts() == 0);
}

TEST_CASE("a standard error whose reader is gone does not end the daemon") {
    DaemonProcess daemon;
    const int reader = start_with_pipe(daemon);
    SmallEngine engine(daemon.endpoint(), "engine");
    engine.admit(4);
    ::close(reader);
    SmallEngine late(daemon.endpoint(), "late");
    late.session().close();
    engine.steps(3);
    CHECK(daemon.terminate() == 0);
}

TEST_CASE("a standard error that nobody reads does not stop the daemon") {
    DaemonProcess daemon(kTwoSamplers, "log: {level: debug}");
    const int reader = start_with_pipe(daemon);
    SmallEngine engine(daemon.endpoint(), "engine");
    engine.admit(4);
    // Each opening writes a line or two: far more than the 64 KiB that a pipe holds.
    for (int i = 0; i < 600; ++i) {
        EngineShape shape;
        shape.vocab = 64;
        shape.tp = 1;
        SmallEngine passing(daemon.endpoint(), "passing-" + std::string(50, 'x'), shape);
        passing.session().close();
    }
    engine.steps(3);
    CHECK(daemon.terminate() == 0);
    ::close(reader);
}

// A session of gigabytes is opened beside everything else: nobody waits for its memory but its client.
#include <sys/statvfs.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <thread>

#include "testing/daemon_process.h"
#include "testing/small_engine.h"
#include "tests/daemon/control_peer.h"

using namespace croupier;
using namespace croupier::testing;
using flatbuffers::FlatBufferBuilder;

namespace {

// 64 slots of 1,024 columns of 32,000 logits: 3.9 GiB.
void ask_for_gigabytes(ControlPeer& peer, std::uint64_t request) {
    FlatBufferBuilder builder;
    wire::finish(builder, request,
                 wire::CreateOpenDirect(builder, "large", 32000, 1, 1024, 64, 0, 64, 8, 64, 4, 4, 0));
    peer.send(builder);
}

bool has_gigabytes() {
    struct statvfs room {};
    if (::statvfs("/dev/shm", &room) == 0 && room.f_bavail * room.f_bsize > (std::uint64_t{6} << 30U))
        return true;
    WARN("skipped: /dev/shm has no 6 GiB");
    return false;
}

bool nothing_came(ControlPeer& peer) {
    return peer.receive(std::chrono::milliseconds(0)) == nullptr;
}

}  // namespace

TEST_CASE(
    "while a segment of gigabytes is made, dead samplers are replaced, steps decided, statistics told") {
    if (!has_gigabytes()) return;
    const DaemonProcess daemon("{count: 1}");
    SmallEngine engine(daemon.endpoint(), "small");
    engine.admit(4);
    engine.step();
    ControlPeer opener(daemon.endpoint());
    ask_for_gigabytes(opener, 5);
    const pid_t sampler = daemon.sampler_pid(0);
    engine.submit();
    ::kill(sampler, SIGKILL);
    engine.write();
    engine.collect();
    ControlPeer asker(daemon.endpoint());
    FlatBufferBuilder builder;
    wire::finish(builder, 9, wire::CreateStatistics(builder));
    asker.send(builder);
    REQUIRE(asker.receive() != nullptr);
    // An order of events and no time: the memory takes seconds, all of the above some hundredths.
    CHECK(nothing_came(opener));
    const wire::Message* opened = opener.receive();
    REQUIRE(opened != nullptr);
    CHECK(opened->request() == 5);
    CHECK(opened->body_as_SessionInfo() != nullptr);
}

TEST_CASE("a client that gives up waiting and asks again is given the segment that is being made for it") {
    if (!has_gigabytes()) return;
    const DaemonProcess daemon("{count: 1}");
    for (std::uint64_t request = 1; request < 6; ++request) {
        ControlPeer gives_up(daemon.endpoint());
        ask_for_gigabytes(gives_up, request);
        nothing_came(gives_up);
    }
    ControlPeer last(daemon.endpoint());
    ask_for_gigabytes(last, 6);
    const wire::Message* opened = last.receive(std::chrono::seconds(120));
    REQUIRE(opened != nullptr);
    REQUIRE(opened->body_as_SessionInfo() != nullptr);
    const std::uint64_t id = opened->body_as_SessionInfo()->session_id();
    // Also one that asks when it is made already, before anybody attached.
    ControlPeer late(daemon.endpoint());
    ask_for_gigabytes(late, 7);
    const wire::Message* again = late.receive(std::chrono::seconds(120));
    REQUIRE(again != nullptr);
    REQUIRE(again->body_as_SessionInfo() != nullptr);
    CHECK(again->body_as_SessionInfo()->session_id() == id);
    CHECK_FALSE(daemon.says("ends:"));
}

TEST_CASE("a daemon that is told to stop gives up a segment of gigabytes that it is making") {
    if (!has_gigabytes()) return;
    DaemonProcess daemon("{count: 1}");
    ControlPeer opener(daemon.endpoint());
    ask_for_gigabytes(opener, 5);
    CHECK(daemon.terminate() == 0);
    CHECK(daemon.files_in_shm() == 0);
}

TEST_CASE("a client that waits for a segment is refused at once when the daemon hands over") {
    if (!has_gigabytes()) return;
    DaemonProcess daemon("{count: 1}");
    ControlPeer opener(daemon.endpoint());
    ask_for_gigabytes(opener, 7);
    ControlPeer asker(daemon.endpoint());
    FlatBufferBuilder builder;
    wire::finish(builder, 9, wire::CreateStatistics(builder));
    asker.send(builder);
    REQUIRE(asker.receive() != nullptr);
    daemon.signal(SIGUSR1);
    const wire::Message* told = opener.receive();
    REQUIRE(told != nullptr);
    CHECK(told->request() == 7);
    REQUIRE(told->body_as_Refusal() != nullptr);
    CHECK(told->body_as_Refusal()->code() == static_cast<std::uint32_t>(shm::Errc::draining));
    CHECK(daemon.await_end() == 0);
    // The plane, which `croupier status` reads meanwhile.
    CHECK(daemon.files_in_shm() == 1);
}

TEST_CASE("a segment that is being made when its daemon stops is not left behind") {
    DaemonProcess daemon("{count: 1}");
    for (int round = 0; round < 24; ++round) {
        ControlPeer opener(daemon.endpoint());
        FlatBufferBuilder builder;
        wire::finish(builder, 1,
                     wire::CreateOpenDirect(builder, "made", 32000, 1, 64, 4, 0, 64, 8, 64, 4, 4, 0));
        opener.send(builder);
        // At another instant each time.
        const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(100 * round);
        while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
        daemon.signal(SIGTERM);
        REQUIRE(daemon.await_end() == 0);
        CHECK(daemon.files_in_shm() == 0);
        daemon.start();
        REQUIRE(daemon.await_ready());
    }
}

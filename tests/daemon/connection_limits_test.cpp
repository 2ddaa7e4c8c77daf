// Connections that are taken in numbers: the daemon keeps the descriptors that it needs itself, and no user
// takes what another one needs.
#include "daemon/control/connection_limits.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "testing/daemon_process.h"
#include "testing/file_text.h"
#include "testing/small_engine.h"
#include "tests/daemon/control_peer.h"
#include "tests/daemon/http_peer.h"
#include "tests/daemon/idle_peer.h"
#include "tests/daemon/limited_croupierd.h"
#include "tests/daemon/open_house.h"
#include "tests/shm/second_user.h"

using namespace croupier;
using namespace croupier::testing;
using daemon::ConnectionBook;

namespace {

const ConnectionBook::Peer kOne{"uid 1000", false};
const ConnectionBook::Peer kOther{"uid 1001", false};
const ConnectionBook::Peer kFar{"address 192.0.2.1", true};

// A socket, and one that is connected to it.
struct Pair {
    Pair() { REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0); }
    ~Pair() {
        ::close(ends[0]);
        ::close(ends[1]);
    }
    Pair(const Pair&) = delete;
    Pair& operator=(const Pair&) = delete;

    std::array<int, 2> ends{};
};

bool opens_session(const std::string& endpoint, const char* name) {
    return failure_of([&] {
               SmallEngine engine(endpoint, name);
               engine.admit(4);
               engine.step();
           })
        .empty();
}

}  // namespace

TEST_CASE("each user has as many connections as the limit allows") {
    ConnectionBook book;
    book.set_limits({2, 5});
    const std::array<Pair, 4> sockets;
    CHECK(book.refusal(sockets[0].ends[0], kOne) == std::nullopt);
    CHECK(book.refusal(sockets[0].ends[1], kOne) == std::nullopt);
    CHECK(book.refusal(sockets[1].ends[0], kOne) == 2);
    CHECK(book.refusal(sockets[1].ends[0], kOther) == std::nullopt);
    CHECK(book.refusal(sockets[1].ends[1], kOther) == std::nullopt);
    CHECK(book.refusal(sockets[2].ends[0], kOther) == 2);
}

TEST_CASE(
    "the number of connections is bounded, and TCP connections leave half of it to the users of the host") {
    ConnectionBook book;
    book.set_limits({10, 4});
    const std::array<Pair, 4> sockets;
    CHECK(book.refusal(sockets[0].ends[0], kFar) == std::nullopt);
    CHECK(book.refusal(sockets[0].ends[1], {"address 192.0.2.2", true}) == std::nullopt);
    CHECK(book.refusal(sockets[1].ends[0], {"address 192.0.2.3", true}) == 2);
    CHECK(book.refusal(sockets[1].ends[0], kOne) == std::nullopt);
    CHECK(book.refusal(sockets[1].ends[1], kOther) == std::nullopt);
    CHECK(book.refusal(sockets[2].ends[0], {"uid 1002", false}) == 4);
}

TEST_CASE("connections that were closed no longer count, whatever took their descriptors") {
    ConnectionBook book;
    book.set_limits({2, 4});
    const Pair last;
    {
        const Pair closed;
        CHECK(book.refusal(closed.ends[0], kOne) == std::nullopt);
        CHECK(book.refusal(closed.ends[1], kOne) == std::nullopt);
    }
    // Their numbers are taken again: one is a connection's of another user, one is no connection at all.
    const Pair reused;
    CHECK(book.refusal(reused.ends[0], kOther) == std::nullopt);
    CHECK(book.refusal(last.ends[0], kOne) == std::nullopt);
    CHECK(book.refusal(last.ends[1], kOne) == std::nullopt);
}

TEST_CASE("what the limit of open files leaves is shared so that no one user has more than half") {
    const std::size_t own = daemon::own_files(16, 200);
    CHECK(own == daemon::own_files(16, 0) + 200);
    const auto plenty = daemon::connection_limits(65536, own, 256);
    CHECK(plenty.all == 65536 - own);
    CHECK(plenty.each == 256);
    const auto few = daemon::connection_limits(own + 40, own, 256);
    CHECK(few.all == 40);
    CHECK(few.each == 20);
    CHECK(daemon::connection_limits(own + 40, own, 3).each == 3);
    CHECK(daemon::connection_limits(10, own, 256).all == daemon::kFewestConnections);
}

TEST_CASE("a user who opens connections without end neither ends the daemon nor keeps another user out") {
    if (!shm::can_change_user()) return;
    const LimitedCroupierd few_files("ulimit -n 200");
    DaemonProcess daemon(kTwoSamplers, kForAllUsers, few_files.path());
    let_all_users_in(daemon);
    auto attacker = shm::start_as_nobody([&] {
        const auto peers = idle_peers(daemon.directory() + "/control.sock", 400);
        if (!eventually([&] { return open_ones(peers) <= 100; })) return 1;
        ::raise(SIGSTOP);
        return 0;
    });
    REQUIRE(attacker.wait_until_stopped());
    CHECK(shm::start_as(shm::kThirdUser, [&] {
              return opens_session(daemon.endpoint(), "meanwhile") ? 0 : 1;
          }).wait() == 0);
    attacker.send(SIGCONT);
    CHECK(attacker.wait() == 0);
    CHECK(shm::as_nobody([&] { return opens_session(daemon.endpoint(), "afterwards") ? 0 : 1; }) == 0);
    CHECK(daemon.says("event=connection_refused"));
    CHECK(daemon.says("uid 65534"));
    CHECK(daemon.sampler_restarts() == 0);
    CHECK(daemon.terminate() == 0);
}

TEST_CASE("with all connections taken a daemon still has the descriptors that it needs itself") {
    constexpr std::uint32_t kSessions = 6;
    const std::size_t open_files = daemon::own_files(kSessions, 2) + daemon::kFewestConnections;
    const LimitedCroupierd few_files("ulimit -n " + std::to_string(open_files));
    const std::uint16_t port = free_port();
    DaemonProcess daemon("{count: 2}",
                         "sessions: {max: " + std::to_string(kSessions) +
                             "}\nmetrics: {listen: \"127.0.0.1:" + std::to_string(port) + "\"}",
                         few_files.path());
    std::vector<std::unique_ptr<SmallEngine>> engines;
    for (std::uint32_t i = 0; i < kSessions; ++i) {
        engines.push_back(std::make_unique<SmallEngine>(daemon.endpoint(), "s" + std::to_string(i)));
        engines.back()->admit(2);
    }
    const auto peers = idle_peers(daemon.directory() + "/control.sock", 200);
    REQUIRE(eventually([&] { return open_ones(peers) <= 16; }));
    std::vector<int> browsers(64);
    for (int& browser : browsers) browser = http_send(port, "GET /metrics HTTP/1.1\r\n");
    CHECK(http_get(port, "/metrics").find("croupier_") != std::string::npos);
    ::kill(daemon.sampler_pid(0), SIGKILL);
    CHECK(eventually([&] { return daemon.sampler_restarts() == 1; }));
    for (auto& engine : engines) engine->steps(2);
    for (const int browser : browsers) ::close(browser);
    CHECK_FALSE(daemon.says("Too many open files"));
    engines.clear();
    CHECK(daemon.terminate() == 0);
}

TEST_CASE("a daemon whose limit of open files is too low for its sessions says so and does not start") {
    const Sandbox sandbox;
    sandbox.write_config(kTwoSamplers, "");
    const LimitedCroupierd few_files("ulimit -n 100");
    const std::string log = sandbox.directory() + "/log";
    auto process = ChildProcess::execute({few_files.path(), "--config", sandbox.config_path()}, log, SIGKILL);
    CHECK(process.wait() == 1);
    const std::string said = text_of(log).value_or("");
    CHECK_THAT(said, Catch::Contains("the limit of open files is 100") && Catch::Contains("sessions.max") &&
                         Catch::Contains("LimitNOFILE"));
}

TEST_CASE("a reload changes how many connections a user may have") {
    DaemonProcess daemon;
    daemon.write_config(kTwoSamplers,
                        "control: {endpoint: \"" + daemon.endpoint() + "\", connections_per_peer: 3}");
    daemon.signal(SIGHUP);
    REQUIRE(eventually([&] { return daemon.says("event=reloaded"); }));
    const auto peers = idle_peers(daemon.directory() + "/control.sock", 20);
    CHECK(eventually([&] { return open_ones(peers) == 3; }));
    CHECK(daemon.says("control.connections_per_peer"));
}

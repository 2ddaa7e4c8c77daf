// Peers that try what libzmq itself lets them do to the daemon's sockets: claim another's id, come in
// numbers, send without end.
#include <sys/resource.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <vector>

#include "daemon/control/control_server.h"
#include "testing/daemon_process.h"
#include "tests/daemon/control_peer.h"
#include "tests/daemon/idle_peer.h"

using namespace croupier;
using namespace croupier::testing;

namespace {

// As libzmq makes the ids of peers that bring none: a zero, and a number of which the first comes from
// rand() and each further one is the next.
std::string automatic_id(std::uint32_t number) {
    std::string id(1, '\0');
    for (const int shift : {24, 16, 8, 0}) id.push_back(static_cast<char>(number >> shift));
    return id;
}

// The first number of a process that never called srand(), which C lays down to be as after srand(1).
std::uint32_t first_unseeded() {
    std::srand(1);
    const auto low = static_cast<std::uint32_t>(std::rand());
    return low | static_cast<std::uint32_t>(std::rand()) << 31U;
}

bool is_answered(ControlPeer& peer) {
    peer.send({"no message at all"});
    return !peer.refusal().empty();
}

// For the processes that are started in its lifetime.
class SoftFileLimit {
  public:
    explicit SoftFileLimit(rlim_t most) {
        ::getrlimit(RLIMIT_NOFILE, &before_);
        const rlimit lower{most, before_.rlim_max};
        ::setrlimit(RLIMIT_NOFILE, &lower);
    }
    ~SoftFileLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
    SoftFileLimit(const SoftFileLimit&) = delete;
    SoftFileLimit& operator=(const SoftFileLimit&) = delete;

  private:
    rlimit before_{};
};

// How many messages a peer can send to a socket that nobody reads.
int sent_until_full(zmq::context_t& context, zmq::socket_t& unread) {
    constexpr int kMost = 600;
    // No connection between them whose buffers would count too.
    const std::string endpoint = "inproc://unread";
    unread.bind(endpoint);
    zmq::socket_t peer(context, zmq::socket_type::dealer);
    peer.set(zmq::sockopt::linger, 0);
    peer.set(zmq::sockopt::sndhwm, 1);
    peer.connect(endpoint);
    int sent = 0;
    while (sent < kMost && peer.send(zmq::buffer("x", 1), zmq::send_flags::dontwait)) ++sent;
    return sent;
}

}  // namespace

TEST_CASE("the ids that libzmq gives to peers are not those of every other start") {
    DaemonProcess daemon;
    // A peer that has the id which libzmq gives next would end the daemon by an assertion.
    ControlPeer claimant(daemon.endpoint(), automatic_id(first_unseeded()));
    CHECK(is_answered(claimant));
    ControlPeer other(daemon.endpoint());
    CHECK(is_answered(other));
    CHECK(daemon.terminate() == 0);
}

TEST_CASE("a daemon that is started under a low soft limit of descriptors outlives more peers than that") {
    constexpr int kPeers = 240;
    DaemonProcess daemon;
    REQUIRE(daemon.terminate() == 0);
    {
        const SoftFileLimit low(200);
        daemon.start();
        REQUIRE(daemon.await_ready());
    }
    const auto idle = idle_peers(daemon.directory() + "/control.sock", kPeers);
    CHECK(std::all_of(idle.begin(), idle.end(), [](const IdlePeer& peer) { return peer.connected(); }));
    // It stands behind them in the queue of the socket: once it is answered, they have all been let in.
    ControlPeer last(daemon.endpoint());
    CHECK(is_answered(last));
    CHECK(daemon.terminate() == 0);
}

TEST_CASE("what one peer has sent and the daemon has not yet read is bounded") {
    zmq::context_t context;
    daemon::ControlServer control(context, 1U << 20U);
    CHECK(sent_until_full(context, control.socket()) < 100);
}

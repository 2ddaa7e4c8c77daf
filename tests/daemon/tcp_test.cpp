// Over TCP: only with keys, and only for those whose key is known.
#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <zmq.hpp>

#include "proto/zmq_calls.h"
#include "shm/segment.h"
#include "shm/step_window.h"
#include "testing/daemon_process.h"
#include "testing/small_engine.h"
#include "tests/daemon/idle_peer.h"
#include "tests/daemon/loopback.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

struct KeyPair {
    std::string open;
    std::string secret;
};

KeyPair fresh_keys() {
    std::array<char, 41> open{};
    std::array<char, 41> secret{};
    zmq_curve_keypair(open.data(), secret.data());
    return {open.data(), secret.data()};
}

// The files and ports that a TCP configuration names.
struct TcpSetup {
    Sandbox files;
    KeyPair server = fresh_keys();
    KeyPair client = fresh_keys();
    std::string control = "tcp://127.0.0.1:" + std::to_string(free_port());

    TcpSetup() {
        std::ofstream(files.directory() + "/secret") << server.secret << "\n";
        std::ofstream(files.directory() + "/clients") << "# known engines\n" << client.open << "  # one\n";
    }
    std::string yaml() const {
        return "control:\n  endpoint: \"" + control + "\"\n  curve: {secret_key_file: " + files.directory() +
               "/secret, authorized_keys_file: " + files.directory() + "/clients}\n";
    }
    EngineShape shape(const KeyPair& keys) const {
        EngineShape made;
        made.server_key = server.open;
        made.client_public_key = keys.open;
        made.client_secret_key = keys.secret;
        return made;
    }
};

}  // namespace

TEST_CASE("a client with an authorised key is served over TCP, its decisions too") {
    const TcpSetup setup;
    DaemonProcess daemon(kTwoSamplers, setup.yaml());
    EngineShape shape = setup.shape(setup.client);
    shape.decisions_over_zmq = true;
    SmallEngine engine(setup.control, "engine", shape);
    engine.admit(8);
    engine.steps(3);
    engine.submit();
    daemon.restart_after_kill();
    engine.write();
    engine.collect();
    engine.session().close();
}

TEST_CASE("clients reach a daemon at an IPv6 address, and over both families at every address") {
    if (!has_ipv6()) {
        WARN("skipped: this machine has no IPv6 loopback address");
        return;
    }
    TcpSetup setup;
    const std::string port = ":" + std::to_string(free_port());
    const std::string host = GENERATE("[::1]", "*");
    setup.control = "tcp://" + host + port;
    const DaemonProcess daemon(kTwoSamplers, setup.yaml());
    EngineShape shape = setup.shape(setup.client);
    shape.decisions_over_zmq = true;
    SmallEngine over_ipv6("tcp://[::1]" + port, "six", shape, 5000);
    over_ipv6.admit(8);
    over_ipv6.step();
    if (host == "[::1]") return;
    SmallEngine over_ipv4("tcp://127.0.0.1" + port, "four", shape, 5000);
    over_ipv4.admit(8);
    over_ipv4.step();
}

TEST_CASE("a daemon that listens over both families counts each IPv4 address apart") {
    if (!has_ipv6()) {
        WARN("skipped: this machine has no IPv6 loopback address");
        return;
    }
    TcpSetup setup;
    const std::uint16_t port = free_port();
    setup.control = "tcp://*:" + std::to_string(port);
    const DaemonProcess daemon(kTwoSamplers, setup.yaml() + "  connections_per_peer: 3\n");
    const auto one = idle_peers_from("127.0.0.1", port, 8);
    const auto other = idle_peers_from("127.0.0.2", port, 8);
    CHECK(eventually([&] { return open_ones(one) == 3 && open_ones(other) == 3; }));
}

TEST_CASE("a client is told that an IPv6 address needs brackets") {
    const TcpSetup setup;
    CHECK_THAT(failure_of([&] { SmallEngine("tcp://::1:7001", "six", setup.shape(setup.client), 1000); }),
               Contains("tcp://::1:7001") && Contains("in brackets, as in tcp://[::1]:7001"));
}

TEST_CASE("an unknown key, a wrong server key and no key at all are refused over TCP, and the log says so") {
    const TcpSetup setup;
    const DaemonProcess daemon(kTwoSamplers, setup.yaml());
    const auto open_with = [&](const EngineShape& shape) {
        return failure_of([&] { SmallEngine(setup.control, "engine", shape, 1000); });
    };
    const KeyPair unknown = fresh_keys();
    CHECK_THAT(open_with(setup.shape(unknown)), Contains("timed_out") && Contains("authorized keys"));
    CHECK(eventually(
        [&] { return daemon.says("its CURVE key " + unknown.open + " is not among the authorized ones"); }));
    CHECK(daemon.says(" peer=\"address 127.0.0.1\" public_key="));
    EngineShape wrong_server = setup.shape(setup.client);
    wrong_server.server_key = fresh_keys().open;
    CHECK_THAT(open_with(wrong_server), Contains("timed_out"));
    CHECK_THAT(open_with({}), Contains("server_key") && Contains("CURVE"));
    CHECK(daemon.files_in_shm() == 1);

    // A peer that speaks no CURVE at all never gets as far as a message.
    zmq::context_t context;
    zmq::socket_t plain(context, zmq::socket_type::dealer);
    plain.set(zmq::sockopt::linger, 0);
    zmq::socket_t monitor = proto::monitor_of(
        context, plain, "inproc://monitor",
        ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_DISCONNECTED);
    plain.connect(setup.control);
    zmq::pollitem_t item{monitor.handle(), 0, ZMQ_POLLIN, 0};
    CHECK(zmq::poll(&item, 1, std::chrono::seconds(20)) == 1);
    // Before its reader goes, for which libzmq would wait.
    zmq_socket_monitor(plain.handle(), nullptr, 0);

    SmallEngine engine(setup.control, "engine", setup.shape(setup.client));
    engine.admit(8);
    engine.step();
}

TEST_CASE("a key that is taken off the list loses its access with SIGHUP, and one that is added gains it") {
    const TcpSetup setup;
    const KeyPair other = fresh_keys();
    DaemonProcess daemon(kTwoSamplers, setup.yaml());
    EngineShape shape = setup.shape(setup.client);
    shape.decisions_over_zmq = true;
    SmallEngine engine(setup.control, "engine", shape);
    engine.admit(8);
    engine.step();
    std::ofstream(setup.files.directory() + "/clients") << other.open << "\n";
    daemon.signal(SIGHUP);
    REQUIRE(eventually([&] { return daemon.says("1 CURVE keys are authorized"); }));
    // Whose connection was there before is refused too, and is sent no more decisions.
    CHECK_THAT(failure_of([&] { engine.session().close(); }), Contains("not among the authorized ones"));
    CHECK_THAT(failure_of([&] { SmallEngine(setup.control, "late", setup.shape(setup.client), 1000); }),
               Contains("timed_out"));
    SmallEngine added(setup.control, "added", setup.shape(other));
    added.admit(8);
    added.step();
    CHECK_THAT(failure_of([&] {
                   EngineShape taking = setup.shape(other);
                   taking.takeover = true;
                   SmallEngine(setup.control, "engine", taking);
               }),
               Contains("permission_denied") && Contains("belongs to another"));
}

TEST_CASE("a client over ZMQ whose key is removed is told so, and can take what its session decides") {
    const TcpSetup setup;
    DaemonProcess daemon(kTwoSamplers, setup.yaml());
    EngineShape shape = setup.shape(setup.client);
    shape.decisions_over_zmq = true;
    SmallEngine(setup.control, "engine", shape).admit(8);
    // Resumed, it subscribes only over the connection of the stream, which is authorized when a step is sent.
    shape.resume = true;
    SmallEngine engine(setup.control, "engine", shape);
    const auto segment = shm::Segment::attach(engine.segment_path(), shm::Access::read_only);
    const shm::Segment& ring = segment.value();
    REQUIRE(eventually([&] {
        engine.step();
        return ring.header().counter(proto::SessionCounter::zmq_steps_sent).load() > 0;
    }));
    std::ofstream(setup.files.directory() + "/clients") << fresh_keys().open << "\n";
    daemon.signal(SIGHUP);
    REQUIRE(eventually([&] { return daemon.says("1 CURVE keys are authorized"); }));
    const std::uint64_t step = engine.submit();
    CHECK_THAT(failure_of([&] { static_cast<void>(engine.session().wait(20000)); }),
               Contains("permission_denied") && Contains("not among the authorized ones"));
    engine.write();
    REQUIRE(eventually([&] { return shm::step_complete(ring, ring.slot_of(step), 8); }));
    engine.collect();
}

TEST_CASE(
    "the last key that is taken off the list loses its access too, and a list that cannot be read changes "
    "nothing") {
    const TcpSetup setup;
    const std::string list = setup.files.directory() + "/clients";
    DaemonProcess daemon(kTwoSamplers, setup.yaml());
    SmallEngine engine(setup.control, "engine", setup.shape(setup.client));
    std::filesystem::remove(list);
    daemon.signal(SIGHUP);
    REQUIRE(eventually([&] { return daemon.says("in effect, but the CURVE keys are unchanged"); }));
    CHECK(daemon.says("event=keys_reload_refused"));
    engine.admit(8);
    engine.step();
    std::ofstream(list) << "# revoked\n";
    daemon.signal(SIGHUP);
    REQUIRE(eventually([&] { return daemon.says("0 CURVE keys are authorized"); }));
    CHECK(eventually([&] { return daemon.says("level=warn") && daemon.says("event=keys_missing"); }));
    CHECK_THAT(failure_of([&] { engine.session().close(); }), Contains("not among the authorized ones"));
    CHECK_THAT(failure_of([&] { SmallEngine(setup.control, "late", setup.shape(setup.client), 1000); }),
               Contains("timed_out"));
    // A daemon that has to start again does, for its local engines.
    daemon.restart_after_kill();
    CHECK(daemon.says("has no key: no client can connect over TCP"));
}

TEST_CASE("a key that looks like a comment, because # is a digit of Z85, is a key all the same") {
    TcpSetup setup;
    for (setup.client = fresh_keys(); setup.client.open.find('#') == std::string::npos;)
        setup.client = fresh_keys();
    std::ofstream(setup.files.directory() + "/clients")
        << "# known engines\n\n  " << setup.client.open << " # one\n";
    const DaemonProcess daemon(kTwoSamplers, setup.yaml());
    SmallEngine engine(setup.control, "engine", setup.shape(setup.client));
    engine.admit(8);
    engine.step();
}

TEST_CASE("TCP without keys is refused by --check-config and at start") {
    const Sandbox sandbox;
    sandbox.write_config(kTwoSamplers,
                         "control: {endpoint: \"tcp://127.0.0.1:" + std::to_string(free_port()) + "\"}");
    const Ended checked = run_croupierd(sandbox, {"--config", sandbox.config_path(), "--check-config"});
    CHECK(checked.status == 2);
    CHECK_THAT(checked.output, Contains("control.endpoint") && Contains("control.curve.secret_key_file"));
    CHECK(run_croupierd(sandbox, {"--config", sandbox.config_path()}).status == 2);
}

TEST_CASE("a key file that holds no key stops the start, naming the file and its line") {
    const TcpSetup setup;
    std::ofstream(setup.files.directory() + "/clients") << "\nnot-a-key\n";
    setup.files.write_config(kTwoSamplers, setup.yaml());
    const Ended ended = run_croupierd(setup.files, {"--config", setup.files.config_path()});
    CHECK(ended.status == 1);
    CHECK_THAT(ended.output, Contains("/clients:2") && Contains("authorized_keys_file"));
    CHECK(setup.files.files_in_shm() == 0);
}

// Start, reload, drain and end, as systemd and an operator see them.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "testing/child_process.h"
#include "testing/daemon_process.h"
#include "testing/file_text.h"
#include "testing/shared_object.h"
#include "testing/small_engine.h"
#include "tests/daemon/control_peer.h"
#include "tests/daemon/loopback.h"
#include "tests/daemon/served_engine.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

// The socket of a service manager, in the environment of daemons that start while this lives.
class NotifySocket {
  public:
    NotifySocket() : fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        const std::string path = files_.directory() + "/notify";
        path.copy(address.sun_path, sizeof(address.sun_path) - 1);
        REQUIRE(::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
        ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
        ::setenv("WATCHDOG_USEC", "200000", 1);
    }
    ~NotifySocket() {
        ::unsetenv("NOTIFY_SOCKET");
        ::unsetenv("WATCHDOG_USEC");
        ::close(fd_);
    }

    // Reads until a message has `text` in it; empty when none comes.
    std::string message_with(const std::string& text) {
        pollfd ready{fd_, POLLIN, 0};
        while (::poll(&ready, 1, 20000) == 1) {
            std::array<char, 512> buffer{};
            const auto length = ::recv(fd_, buffer.data(), buffer.size(), 0);
            std::string message(buffer.data(), static_cast<std::size_t>(length));
            if (message.find(text) != std::string::npos) return message;
        }
        return {};
    }
    bool hears(const std::string& text) { return !message_with(text).empty(); }

  private:
    Sandbox files_;
    int fd_;
};

// A start that has to fail: exit status 1, the reason, and nothing left in /dev/shm.
std::string failed_start(const Sandbox& sandbox, const std::string& extra) {
    sandbox.write_config(kTwoSamplers, extra);
    const Ended ended = run_croupierd(sandbox, {"--config", sandbox.config_path()});
    CHECK(ended.status == 1);
    CHECK(sandbox.files_in_shm() == 0);
    return ended.output.substr(ended.output.find("cannot start"));
}

std::uint64_t lost(proto::SegmentHeader& header) {
    return header.counter(proto::SessionCounter::writers_lost).load();
}

// Its daemon ends without waiting for steps in flight.
struct EngineNotDrained : EngineServedEachWay {
    EngineNotDrained() : EngineServedEachWay("sessions: {drain_timeout_ms: 0}") {}
};

void submit_some(SmallEngine& engine, std::uint64_t first_uid, std::uint64_t count) {
    std::vector<croupier_column> columns;
    for (std::uint64_t uid = first_uid; uid < first_uid + count; ++uid)
        columns.push_back({uid, nullptr, 1, 0});
    engine.session().submit(columns);
}

}  // namespace

TEST_CASE("a reload before the samplers run does not say that the daemon is ready") {
    NotifySocket manager;
    DaemonProcess daemon;
    daemon.terminate();
    REQUIRE(manager.hears("STOPPING=1"));
    const std::string door = daemon.directory() + "/control.sock";
    std::filesystem::remove(door);
    daemon.start();
    REQUIRE(eventually([&] { return std::filesystem::exists(door); }));
    daemon.signal(SIGHUP);
    CHECK_THAT(manager.message_with("READY=1"), Contains("STATUS=serving"));
}

TEST_CASE_METHOD(EngineServedEachWay,
                 "SIGTERM lets the steps in flight finish, refuses new ones, and leaves nothing behind") {
    engine.step();
    engine.submit();
    daemon.signal(SIGTERM);
    REQUIRE(eventually([&] { return daemon.says("draining (SIGTERM)"); }));
    CHECK_THAT(failure_of([&] { engine.submit(); }), Contains("draining"));
    CHECK_THAT(failure_of([&] { SmallEngine(daemon.endpoint(), "late"); }), Contains("draining"));
    CHECK(daemon.files_in_shm() == 3);
    engine.write();
    engine.collect();
    CHECK(daemon.await_end() == 0);
    CHECK(daemon.files_in_shm() == 0);
    CHECK_THAT(failure_of([&] { engine.submit(); }), Contains("session_closed"));
}

TEST_CASE_METHOD(EngineServedEachWay,
                 "a drain waits until decided steps are taken, however late their client comes for them") {
    engine.submit();
    engine.write();
    REQUIRE(engine.counted(8));
    const auto segment = shm::Segment::attach(engine.segment_path(), shm::Access::read_only);
    auto& header = segment.value().header();
    daemon.signal(SIGTERM);
    REQUIRE(eventually([&] { return daemon.says("draining (SIGTERM)"); }));
    // Two rounds of writers that end: the second is noticed after the loop looked whether it may stop.
    for (std::uint64_t round = 1; round <= 2; ++round) {
        if (round == 2) engine.attach_writers();
        engine.detach_writers();
        REQUIRE(eventually([&] {
            return lost(header) == round * 2 || header.state.load() != proto::SessionState::draining;
        }));
    }
    CHECK(header.state.load() == proto::SessionState::draining);
    engine.collect();
    CHECK(daemon.await_end() == 0);
    CHECK_FALSE(daemon.says("after sessions.drain_timeout_ms"));
}

TEST_CASE_METHOD(ServedEngine, "ps and top name samplers, which the daemon starts from /proc/self/exe") {
    const auto name_of = [](pid_t pid) {
        return text_of("/proc/" + std::to_string(pid) + "/comm").value_or("");
    };
    CHECK(name_of(daemon.pid()) == "croupierd\n");
    CHECK(name_of(daemon.sampler_pid(0)) == "croupierd-0\n");
    CHECK(name_of(daemon.sampler_pid(1)) == "croupierd-1\n");
}

TEST_CASE_METHOD(ServedEngine, "a sampler outlives the signals that a whole process group is sent") {
    const pid_t sampler = daemon.sampler_pid(0);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
        INFO("signal " << number);
        ::kill(sampler, number);
        daemon.await_idle_samplers();
        engine.step();
    }
    CHECK(daemon.sampler_pid(0) == sampler);
    CHECK(daemon.sampler_restarts() == 0);
    CHECK(daemon.terminate() == 0);
    CHECK_FALSE(daemon.says("event=sampler_lost"));
}

TEST_CASE_METHOD(EngineNotDrained, "a step that was decided before its session ended can still be taken") {
    for (const std::uint64_t first : {1UL, 5UL}) {
        submit_some(engine, first, 4);
        engine.write();
    }
    REQUIRE(engine.counted(8));
    CHECK(daemon.terminate() == 0);
    CHECK(daemon.says("not taken after sessions.drain_timeout_ms"));
    engine.collect_columns(4);
    engine.collect_columns(4);
    CHECK_THAT(failure_of([&] { engine.submit(); }), Contains("session_closed"));
}

TEST_CASE("what was published reaches a subscriber that is slow to read, though the daemon ends") {
    struct Subscriber {
        std::atomic<std::uint64_t> session_id{0};
        std::atomic<bool> subscribed{false};
        std::atomic<std::uint64_t> received{0};
    };
    // More than the kernel's socket buffers hold.
    constexpr std::uint64_t kSteps = 8;
    constexpr std::uint64_t kColumns = 2048;
    DaemonProcess daemon(kTwoSamplers,
                         "sessions: {drain_timeout_ms: 0, max_batch: 2048, max_sequences: 16384}");
    const Shared<Subscriber> shared;
    // Before this process has an engine of its own: a fork takes none of ZMQ's threads along.
    auto child = ChildProcess::start([&] {
        ControlPeer subscriber(daemon.endpoint());
        if (!eventually([&] { return shared->session_id != 0; })) return 1;
        flatbuffers::FlatBufferBuilder builder;
        wire::finish(builder, 1, wire::CreateConfigure(builder, shared->session_id, true));
        subscriber.send(builder);
        while (const wire::Message* message = subscriber.receive()) {
            const auto* step = message->body_as_StepDecisions();
            shared->subscribed = true;
            if (step != nullptr && ++shared->received == kSteps) return 0;
        }
        return 1;
    });
    EngineShape shape;
    shape.vocab = 64;
    shape.tp = 1;
    shape.batch = kColumns;
    shape.max_sequences = kSteps * kColumns;
    shape.max_length = 64;
    shape.steps_in_flight = kSteps;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    engine.admit(kSteps * kColumns);
    const auto segment = shm::Segment::attach(engine.segment_path(), shm::Access::read_only);
    auto& header = segment.value().header();
    submit_some(engine, 1, kColumns);
    engine.write();
    shared->session_id = header.session_id;
    REQUIRE(eventually([&] { return shared->subscribed.load(); }));
    child.send(SIGSTOP);
    for (std::uint64_t step = 1; step < kSteps; ++step) {
        submit_some(engine, 1 + step * kColumns, kColumns);
        engine.write();
    }
    const auto& sent = header.counter(proto::SessionCounter::zmq_steps_sent);
    REQUIRE(eventually([&] { return sent.load() == kSteps; }));
    daemon.signal(SIGTERM);
    REQUIRE(eventually([&] { return daemon.says("stopped"); }));
    child.send(SIGCONT);
    CHECK(daemon.await_end() == 0);
    CHECK(eventually([&] { return shared->received == kSteps; }));
}

TEST_CASE("a drain ends after sessions.drain_timeout_ms though logits never come") {
    ServedEngine served({}, "sessions: {drain_timeout_ms: 100}");
    served.engine.submit();
    CHECK(served.daemon.terminate() == 0);
    CHECK(served.daemon.says("steps are still in flight"));
    CHECK(served.daemon.files_in_shm() == 0);
    CHECK_THAT(failure_of([&] { static_cast<void>(served.engine.session().wait(1000)); }),
               Contains("session_closed"));
}

TEST_CASE("Drain over the control socket ends the daemon as SIGTERM does") {
    DaemonProcess daemon;
    ControlPeer peer(daemon.endpoint());
    flatbuffers::FlatBufferBuilder builder;
    wire::finish(builder, 3, wire::CreateDrain(builder));
    peer.send(builder);
    const wire::Message* answer = peer.receive();
    REQUIRE(answer != nullptr);
    CHECK(answer->body_type() == wire::Body::Draining);
    CHECK(daemon.await_end() == 0);
    CHECK(daemon.files_in_shm() == 0);
}

TEST_CASE("SIGHUP puts reloadable keys in force and names those that need a restart") {
    DaemonProcess daemon(kTwoSamplers, "sessions: {max: 1}");
    SmallEngine first(daemon.endpoint(), "first");
    CHECK_THAT(failure_of([&] { SmallEngine(daemon.endpoint(), "second"); }), Contains("sessions.max"));
    daemon.write_config("{count: 3, wait: adaptive, max_sleep_us: 77}", "sessions: {max: 2}");
    daemon.signal(SIGHUP);
    REQUIRE(eventually([&] { return daemon.says("are in effect"); }));
    CHECK(daemon.says("samplers.count changes only with a restart"));
    CHECK_FALSE(daemon.says("sessions.max changes only with a restart"));
    CHECK(daemon.plane().header().max_sleep_us.load() == 77);
    CHECK(daemon.plane().header().sampler_count == 2);
    SmallEngine second(daemon.endpoint(), "second");
    second.admit(8);
    second.steps(2);
}

TEST_CASE("SIGHUP with a broken file changes nothing and says line and key") {
    DaemonProcess daemon(kTwoSamplers, "sessions: {max: 1}");
    daemon.write_config("{count: 2, spin_us: many}", "sessions: {max: 2}");
    daemon.signal(SIGHUP);
    REQUIRE(eventually([&] { return daemon.says("the configuration is unchanged"); }));
    CHECK_THAT(daemon.log(), Contains("croupierd.yaml:3") && Contains("samplers.spin_us"));
    SmallEngine first(daemon.endpoint(), "first");
    CHECK_THAT(failure_of([&] { SmallEngine(daemon.endpoint(), "second"); }), Contains("sessions.max"));
    first.admit(8);
    first.step();
}

TEST_CASE("check-config says by its exit code whether the file is valid") {
    const Sandbox sandbox;
    const auto check = [&] {
        return run_croupierd(sandbox, {"--config", sandbox.config_path(), "--check-config"});
    };
    sandbox.write_config(kTwoSamplers, "");
    CHECK(check().status == 0);
    sandbox.write_config(kTwoSamplers, "sesions: {max: 1}");
    const Ended misspelt = check();
    CHECK(misspelt.status == 2);
    CHECK_THAT(misspelt.output, Contains("sesions"));
    std::filesystem::remove(sandbox.config_path());
    const Ended missing = check();
    CHECK(missing.status == 2);
    CHECK_THAT(missing.output, Contains(sandbox.config_path()));
}

TEST_CASE("the service manager hears READY, the watchdog's beat, and STOPPING") {
    NotifySocket manager;
    DaemonProcess daemon(kTwoSamplers, "sessions: {drain_timeout_ms: 60000}");
    CHECK(manager.hears("READY=1"));
    CHECK(manager.hears("WATCHDOG=1"));
    CHECK(manager.hears("WATCHDOG=1"));
    daemon.signal(SIGHUP);
    CHECK(manager.hears("RELOADING=1"));
    CHECK(manager.hears("READY=1"));
    daemon.signal(SIGTERM);
    // More than the 20 s of the unit's TimeoutStopSec allow, where a drain may take longer.
    CHECK(manager.hears("EXTEND_TIMEOUT_USEC=70000000"));
    CHECK(daemon.await_end() == 0);
}

TEST_CASE("a start that fails exits with 1, says what is wrong, and leaves nothing in /dev/shm") {
    const Sandbox sandbox;
    const HeldPort held;
    const std::string address = "127.0.0.1:" + std::to_string(held.port());
    CHECK_THAT(failed_start(sandbox, "metrics: {listen: \"" + address + "\"}"),
               Contains(address) && Contains("metrics.listen"));
    CHECK_THAT(failed_start(sandbox, "metrics: {listen: \"192.0.2.7:9464\"}"),
               Contains("metrics.listen") && Contains("this host does not have that address"));
    CHECK_THAT(failed_start(sandbox, "control: {endpoint: \"ipc:///proc/none/control.sock\"}"),
               Contains("cannot bind") && Contains("/proc/none/control.sock"));
    CHECK_THAT(failed_start(sandbox, "run_dir: /proc/none"), Contains("run_dir") && Contains("/proc/none"));
    CHECK_THAT(failed_start(sandbox, "shm: {dir: /nowhere/shm}"), Contains("/nowhere/shm"));
    CHECK_THAT(failed_start(sandbox, "shm: {dir: " + sandbox.shm_directory() + ", group: no-such-group}"),
               Contains("no-such-group"));
}

TEST_CASE_METHOD(ServedEngine,
                 "a failed start between a daemon's death and its return does not disturb a living client") {
    engine.step();
    daemon.kill_now();
    const HeldPort held;
    const std::string address = "127.0.0.1:" + std::to_string(held.port());
    daemon.write_config(kTwoSamplers, "metrics: {listen: \"" + address + "\"}");
    CHECK(run_croupierd(daemon, {"--config", daemon.config_path()}).status == 1);
    daemon.write_config("{count: 2, wait: sleep}", "");
    daemon.start();
    REQUIRE(daemon.await_ready());
    engine.steps(3);
}

// The relay as something that an operator runs: under a service manager, measured, from an environment,
// logged.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "fan_out/relay.h"
#include "proto/fan_out_frame.h"
#include "testing/file_text.h"
#include "testing/small_engine.h"
#include "tests/daemon/loopback.h"
#include "tests/fan_out/last_stage.h"
#include "tests/fan_out/raw_root.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

// As systemd's: what the relay tells its service manager.
class ServiceManager {
  public:
    explicit ServiceManager(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path.copy(address.sun_path, sizeof(address.sun_path) - 1);
        REQUIRE(::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
        ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
        ::setenv("WATCHDOG_USEC", "2000000", 1);
    }
    ServiceManager(const ServiceManager&) = delete;
    ServiceManager& operator=(const ServiceManager&) = delete;
    ~ServiceManager() {
        ::unsetenv("NOTIFY_SOCKET");
        ::unsetenv("WATCHDOG_USEC");
        ::close(fd_);
    }
    bool was_told(const std::string& text) {
        return eventually([&] {
            std::array<char, 4096> bytes{};
            for (ssize_t got = 0; (got = ::recv(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT)) > 0;) {
                told_ += std::string(bytes.data(), static_cast<std::size_t>(got)) + "\n";
            }
            return told_.find(text) != std::string::npos;
        });
    }
    std::size_t times(const std::string& text) {
        std::size_t count = 0;
        for (auto at = told_.find(text); at != std::string::npos; at = told_.find(text, at + 1)) ++count;
        return count;
    }

  private:
    int fd_;
    std::string told_;
};

std::string page_of(std::uint16_t port, const std::string& path) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = loopback(port);
    std::string page;
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
        const std::string request = "GET " + path + " HTTP/1.0\r\n\r\n";
        (void)!::write(fd, request.data(), request.size());
        std::array<char, 4096> bytes{};
        for (ssize_t got = 0; (got = ::read(fd, bytes.data(), bytes.size())) > 0;) {
            page.append(bytes.data(), static_cast<std::size_t>(got));
        }
    }
    ::close(fd);
    return page;
}

// Of a metric without labels; -1: there is none.
double value_of(std::uint16_t port, const std::string& name) {
    std::istringstream lines(page_of(port, "/metrics"));
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("croupier_relay_" + name + " ")) return std::stod(line.substr(line.rfind(' ')));
    }
    return -1;
}

Ended run_relay(const Sandbox& files, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {program_beside("croupier"), "relay"});
    const std::string output = files.directory() + "/output";
    auto process = ChildProcess::execute(arguments, output, SIGKILL);
    const int status = process.wait();
    std::string text = text_of(output).value_or("");
    ::unlink(output.c_str());
    return {status, std::move(text)};
}

struct Variable {
    Variable(const char* variable, const std::string& value) : name(variable) {
        ::setenv(name, value.c_str(), 1);
    }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;
    ~Variable() { ::unsetenv(name); }
    const char* name;
};

}  // namespace

TEST_CASE("a service manager is told that a relay is ready, what it does, that it lives and that it ends") {
    const TwoHosts hosts;
    LastStage stage(hosts);
    const Sandbox files;
    ServiceManager manager(files.directory() + "/notify");
    stage.start_relay();
    CHECK(manager.was_told("READY=1\nSTATUS=waiting for a scheduler at " + stage.route().root));
    const std::size_t before = manager.times("WATCHDOG=1");
    CHECK(eventually(
        [&] { return manager.was_told("WATCHDOG=1") && manager.times("WATCHDOG=1") > before + 1; }));
    {
        RemoteScheduler scheduler(stage.route(), 2);
        scheduler.open();
        CHECK(manager.was_told("STATUS=serving the scheduler at"));
        scheduler.close();
    }
    CHECK(stage.stop_relay() == 0);
    CHECK(manager.was_told("STOPPING=1"));
    CHECK_THAT(stage.relay_log(), Contains("event=relay_stopped"));
}

TEST_CASE("a relay's metrics count what came and what it refused") {
    const TwoHosts hosts;
    LastStage stage(hosts);
    const std::uint16_t port = free_port();
    stage.start_relay({"--metrics", "127.0.0.1:" + std::to_string(port)});
    REQUIRE(eventually([&] { return value_of(port, "joined") == 0; }));
    CHECK(value_of(port, "behind_seconds") == 0);
    RemoteScheduler scheduler(stage.route(), 4);
    scheduler.open();
    CHECK(value_of(port, "joined") == 1);
    CHECK(value_of(port, "attached") == 1);
    CHECK(value_of(port, "groups_joined_total") == 1);
    stage.start_writer(scheduler.session().segment_path());
    scheduler.serve(10);
    scheduler.submit(0);
    // An attachment, 4 sequences, 21 steps; how often taking is told is the client's.
    REQUIRE(eventually([&] { return value_of(port, "records_total") >= 26; }));
    CHECK(value_of(port, "record_bytes_total") > 26 * 40);
    CHECK(value_of(port, "apply_seconds_total") > 0);
    CHECK(value_of(port, "records_refused_total") == 0);
    CHECK(value_of(port, "sessions_attached_total") == 1);
    CHECK(value_of(port, "answers_total") >= 1);
    // With nothing left to do it has caught up.
    CHECK(eventually([&] { return value_of(port, "behind_seconds") < 0.1; }));
    scheduler.leave();
    CHECK(eventually([&] { return value_of(port, "joined") == 0; }));
    CHECK(value_of(port, "groups_lost_total") == 0);
    CHECK(value_of(port, "attached") == 0);
    CHECK(value_of(port, "steps_in_flight") == 0);
    scheduler.open();
    CHECK(value_of(port, "groups_joined_total") == 2);
    // The daemon drains: the relay lets go of its session, and tells the scheduler. It refused no record.
    stage.daemon().signal(SIGTERM);
    CHECK(eventually([&] { return value_of(port, "attached") == 0; }));
    CHECK(value_of(port, "records_refused_total") == 0);
}

TEST_CASE("a relay counts a scheduler that is killed as lost, and one that closes its group as gone") {
    const TwoHosts hosts;
    LastStage stage(hosts);
    const std::uint16_t port = free_port();
    stage.start_relay({"--metrics", "127.0.0.1:" + std::to_string(port)});
    const auto serves = [&] { return value_of(port, "joined") == 1; };
    const auto waits = [&] { return value_of(port, "joined") == 0; };
    { const RelayGroup group(stage.route()); }
    REQUIRE(eventually([&] { return value_of(port, "groups_joined_total") == 1; }));
    REQUIRE(eventually(waits));
    CHECK(value_of(port, "groups_lost_total") == 0);
    CHECK_THAT(stage.relay_log(), Contains("the root closed the group"));
    const Sandbox files;
    auto process = start_scheduler_process(stage.route(), files.directory() + "/scheduler");
    REQUIRE(eventually(serves));
    process.send(SIGKILL);
    process.wait();
    REQUIRE(eventually(waits));
    CHECK(value_of(port, "groups_lost_total") == 1);
    CHECK_THAT(stage.relay_log(), Contains("the root died, or its connection was cut"));
}

TEST_CASE("a relay keeps the place in a group that it has not yet heard of") {
    const Sandbox files;
    fan_out::FanOutOptions group;
    group.endpoint = "ipc://" + files.directory() + "/records.sock";
    group.member = 1;
    group.join_timeout = std::chrono::milliseconds(20);
    RawRoot root(group.endpoint);
    std::atomic<int> looks = 0;
    std::atomic<bool> stop = false;
    fan_out::Relay relay(group, "ipc://" + files.directory() + "/none.sock",
                         {.on_status = [](const std::string&) {}, .on_look = [&] { ++looks; }});
    std::thread running([&] { relay.run(stop); });
    const auto end = [&](std::thread* thread) {
        stop = true;
        thread->join();
    };
    const std::unique_ptr<std::thread, decltype(end)> ended(&running, end);
    root.await_hello();
    const int before = looks;
    CHECK(eventually([&] { return looks > before + 2; }));
    root.send(proto::fan_out_frame(header_of(proto::FanOutKind::welcome), {}));
    CHECK(eventually([&] { return relay.counts().joined.load(); }));
}

TEST_CASE("a relay reads its options from the environment, and refuses a name there that is none") {
    const Sandbox files;
    const std::string root = "ipc://" + files.directory() + "/records.sock";
    {
        const Variable where("CROUPIER_RELAY_ROOT", root);
        const Variable members("CROUPIER_RELAY_MEMBER", "9");
        const Ended ended = run_relay(files, {});
        CHECK(ended.status == 1);
        CHECK_THAT(ended.output, Contains("event=relay_failed") && Contains("member"));
    }
    {
        const Variable where("CROUPIER_RELAY_ROOT", root);
        const Variable wrong("CROUPIER_RELAY_ROOTKEY", "x");
        const Ended ended = run_relay(files, {});
        CHECK(ended.status == 1);
        CHECK_THAT(ended.output, Contains("CROUPIER_RELAY_ROOTKEY, which is no option") &&
                                     Contains("CROUPIER_RELAY_ROOT_KEY"));
    }
    const Ended ended = run_relay(files, {});
    CHECK(ended.status != 0);
    CHECK_THAT(ended.output, Contains("--root"));
}

TEST_CASE("a relay that cannot listen for metrics says what is wrong") {
    const Sandbox files;
    const std::string root = "ipc://" + files.directory() + "/records.sock";
    for (const char* bad : {"9465", ":9465", "127.0.0.1:", "127.0.0.1:http"}) {
        const Ended ended = run_relay(files, {"--root", root, "--metrics", bad});
        CHECK(ended.status == 1);
        CHECK_THAT(ended.output, Contains("HOST:PORT"));
    }
    const HeldPort taken;
    const Ended ended =
        run_relay(files, {"--root", root, "--metrics", "127.0.0.1:" + std::to_string(taken.port())});
    CHECK(ended.status == 1);
    CHECK_THAT(ended.output, Contains("cannot listen at 127.0.0.1:" + std::to_string(taken.port())));
}

TEST_CASE("a relay refuses a key file with more than a key, and an engine that is no open descriptor") {
    const Sandbox files;
    const std::string root = "ipc://" + files.directory() + "/records.sock";
    const CurvePair keys;
    const std::string path = files.directory() + "/keys";
    std::ofstream(path) << keys.open << "\n" << keys.secret << "\n";
    const Ended with_two = run_relay(files, {"--root", root, "--key-file", path});
    CHECK(with_two.status == 1);
    CHECK_THAT(with_two.output, Contains("holds more than a key"));
    const Ended closed = run_relay(files, {"--root", root, "--engine-fd", "999"});
    CHECK(closed.status == 1);
    CHECK_THAT(closed.output, Contains("--engine-fd is 999, which is no open descriptor"));
}

TEST_CASE("every line of a relay whose schedulers come and go is one object of JSON") {
    const TwoHosts hosts;
    LastStage stage(hosts);
    stage.start_relay({"--log-format", "json"});
    REQUIRE(eventually([&] { return stage.relay_log().find("relay_waiting") != std::string::npos; }));
    for (int round = 0; round < 3; ++round) {
        RemoteScheduler scheduler(stage.route(), 2);
        scheduler.open();
        scheduler.leave();
    }
    REQUIRE(eventually([&] { return stage.relay_log().find("relay_let_go") != std::string::npos; }));
    CHECK(stage.stop_relay() == 0);
    std::istringstream lines(stage.relay_log());
    std::set<std::string> events;
    for (std::string line; std::getline(lines, line);) {
        INFO(line);
        const auto object = nlohmann::json::parse(line, nullptr, false);
        REQUIRE(object.is_object());
        events.insert(object["event"]);
    }
    for (const char* event :
         {"relay_waiting", "relay_joined", "relay_attached", "relay_let_go", "relay_left", "relay_stopped"}) {
        INFO(event << " is not in\n" << stage.relay_log());
        CHECK(events.contains(event));
    }
}

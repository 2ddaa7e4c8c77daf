// What a monitoring system, an operator and a post-mortem can see.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "shm/snapshot.h"
#include "testing/daemon_process.h"
#include "testing/small_engine.h"
#include "tests/daemon/control_peer.h"
#include "tests/daemon/http_peer.h"
#include "tests/daemon/loopback.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;
using proto::SessionCounter;

TEST_CASE("/metrics follows the steps that are decided") {
    Watched watched;
    const std::string session = "{session=\"engine\"}";
    watched.engine.admit(8);
    CHECK(watched.metrics().at("croupier_steps_taken_total" + session) == 0);
    watched.engine.steps(3);
    REQUIRE(watched.engine.counted(24));
    // The samplers count their own behind that.
    watched.daemon.await_idle_samplers();
    watched.engine.submit();
    const auto after = watched.metrics();
    CHECK(after.at("croupier_steps_published_total" + session) == 4);
    CHECK(after.at("croupier_steps_taken_total" + session) == 3);
    CHECK(after.at("croupier_columns_decided_total" + session) == 24);
    CHECK(after.at("croupier_ring_steps_in_flight" + session) == 1);
    CHECK(after.at("croupier_ring_slots" + session) == 2);
    CHECK(after.at("croupier_session_sequences" + session) == 8);
    CHECK(after.at("croupier_session_client_up" + session) == 1);
    CHECK(after.at("croupier_session_writers" + session) == 2);
    CHECK(after.at("croupier_step_decision_seconds_total" + session) > 0);
    CHECK(after.at("croupier_column_delay_seconds_total" + session) > 0);
    // Of both samplers.
    CHECK(after.at("croupier_stage_seconds_count{stage=\"decide\"}") == 24);
    double columns = 0;
    for (const char* sampler : {"{sampler=\"0\"}", "{sampler=\"1\"}"}) {
        CHECK(after.at(std::string("croupier_sampler_up") + sampler) == 1);
        columns += after.at(std::string("croupier_sampler_columns_total") + sampler);
    }
    CHECK(columns == 24);
    watched.engine.write();
    watched.engine.collect();
}

TEST_CASE("a session is shown by the name and the id that the daemon gave it, whatever its header says") {
    Watched watched;
    SmallEngine liar(watched.daemon.endpoint(), "liar");
    const auto own = shm::Segment::attach(liar.segment_path(), shm::Access::read_write);
    const auto other = shm::Segment::attach(watched.engine.segment_path(), shm::Access::read_only);
    const std::string forged = GENERATE("engine", "\xff\xfe\" 1\nliar");
    auto& header = own.value().header();
    std::strcpy(header.name, forged.c_str());
    header.session_id = other.value().id();
    header.checksum = proto::header_checksum(header);
    const auto shown = watched.metrics();
    CHECK(shown.contains("croupier_session_client_up{session=\"liar\"}"));
    CHECK(std::count_if(shown.begin(), shown.end(), [](const auto& sample) {
              return sample.first.starts_with("croupier_session_client_up");
          }) == 2);
    const std::string page = http_get(watched.port, "/metrics");
    const std::string up = "\ncroupier_session_client_up{session=\"engine\"}";
    CHECK(page.find(up) == page.rfind(up));
    const auto seen = shm::observe(watched.daemon.shm_directory(), watched.daemon.instance());
    CHECK(std::count_if(seen.value().sessions.begin(), seen.value().sessions.end(),
                        [&](const auto& session) { return session.id == other.value().id(); }) == 1);
}

TEST_CASE("every family of /metrics has its help and type, and every counter of a session is there") {
    const Watched watched;
    const std::string page = http_get(watched.port, "/metrics");
    CHECK_THAT(page, Contains("HTTP/1.1 200 OK") && Contains("text/plain; version=0.0.4"));
    std::set<std::string> described;
    std::istringstream lines(page);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string hash, kind, name, rest;
        words >> hash >> kind >> name >> rest;
        if (hash != "#") continue;
        INFO(line);
        CHECK_FALSE(rest.empty());
        if (kind == "TYPE") described.insert(name);
    }
    for (const auto& [name, value] : samples(page)) {
        std::string family = name.substr(0, name.find('{'));
        for (const char* part : {"_bucket", "_sum", "_count"}) {
            for (const char* histogram : {"croupier_stage_seconds", "croupier_session_step_seconds",
                                          "croupier_recent_stage_seconds", "croupier_recent_step_seconds"}) {
                if (family == std::string(histogram) + part) family = histogram;
            }
        }
        INFO(name);
        CHECK(described.contains(family));
    }
    for (const auto& text : proto::kSessionCounterText) {
        std::string name = text.name;
        if (name.ends_with("_ns")) name = name.substr(0, name.size() - 3) + "_seconds";
        CHECK(described.contains("croupier_" + name + "_total"));
    }
}

TEST_CASE("/livez and /readyz say ok, and /readyz says why it is not") {
    Watched watched;
    CHECK_THAT(http_get(watched.port, "/livez"), Contains("200 OK") && Contains("ok"));
    CHECK(eventually([&] { return http_get(watched.port, "/readyz").find("200 OK") != std::string::npos; }));
    CHECK_THAT(http_get(watched.port, "/nothing"), Contains("404"));
    watched.engine.admit(8);
    watched.engine.submit();
    watched.daemon.signal(SIGTERM);
    CHECK(
        eventually([&] { return http_get(watched.port, "/readyz").find("draining") != std::string::npos; }));
    CHECK_THAT(http_get(watched.port, "/readyz"), Contains("503"));
    watched.engine.write();
    watched.engine.collect();
    CHECK(watched.daemon.await_end() == 0);
}

TEST_CASE("connections that send their request slowly, or never, hold up no health check") {
    const Watched watched;
    std::vector<int> slow;
    for (int i = 0; i < 200; ++i) {
        slow.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const sockaddr_in address = loopback(watched.port);
        REQUIRE(::connect(slow.back(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
        REQUIRE(::send(slow.back(), "GET /l", 6, MSG_NOSIGNAL) == 6);
        if (i % 40 == 0) CHECK_THAT(http_get(watched.port, "/livez"), Contains("200 OK"));
    }
    CHECK_THAT(http_get(watched.port, "/livez"), Contains("200 OK"));
    CHECK_THAT(http_get(watched.port, "/metrics"), Contains("croupier_sampler_up"));
    for (const int fd : slow) ::close(fd);
}

TEST_CASE("a session's counters are in the snapshot of a living daemon, and in that of a dead one") {
    DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine");
    engine.admit(5);
    engine.steps(2);
    REQUIRE(engine.counted(10));
    engine.submit();
    auto living = shm::observe(daemon.shm_directory(), daemon.instance());
    REQUIRE(living);
    CHECK(living.value().daemon_alive);
    CHECK(living.value().daemon_pid == daemon.pid());
    REQUIRE(living.value().samplers.size() == 2);
    for (const auto& sampler : living.value().samplers) CHECK(sampler.alive);
    daemon.kill_now();
    CHECK(eventually([&] {
        const auto dead = shm::observe(daemon.shm_directory(), daemon.instance()).value();
        return !dead.daemon_alive && !dead.samplers[0].alive && !dead.samplers[1].alive;
    }));
    const auto dead = shm::observe(daemon.shm_directory(), daemon.instance()).value();
    for (const auto& snapshot : {living.value(), dead}) {
        REQUIRE(snapshot.sessions.size() == 1);
        const auto& session = snapshot.sessions[0];
        CHECK(session.name == "engine");
        CHECK(session.client_alive);
        CHECK(session.client_pid == ::getpid());
        CHECK(session.writers_alive == 2);
        CHECK(session.live_sequences == 5);
        CHECK(session.steps_in_flight == 1);
        CHECK(session.counter(SessionCounter::columns_decided) == 10);
    }
    daemon.start();
    REQUIRE(daemon.await_ready());
    engine.write();
    engine.collect();
}

TEST_CASE("Statistics over the control socket equal the snapshot") {
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine");
    engine.admit(8);
    engine.steps(2);
    REQUIRE(engine.counted(16));
    ControlPeer peer(daemon.endpoint());
    flatbuffers::FlatBufferBuilder builder;
    wire::finish(builder, 9, wire::CreateStatistics(builder));
    peer.send(builder);
    const wire::Message* answer = peer.receive();
    REQUIRE(answer != nullptr);
    REQUIRE(answer->body_as_StatisticsReply() != nullptr);
    CHECK(answer->request() == 9);
    const auto told = nlohmann::json::parse(answer->body_as_StatisticsReply()->json()->str());
    const auto seen =
        nlohmann::json::parse(shm::to_json(shm::observe(daemon.shm_directory(), daemon.instance()).value()));
    CHECK(told.at("sessions") == seen.at("sessions"));
    CHECK(told.at("instance") == daemon.instance());
    CHECK(told.at("daemon").at("pid") == daemon.pid());
    CHECK(told.at("sessions").at(0).at("counters").at("columns_decided") == 16);
    for (const auto& [key, value] : seen.items()) CHECK(told.contains(key));
    for (const auto& [key, value] : seen.at("samplers").at(0).items())
        CHECK(told.at("samplers").at(0).contains(key));
}

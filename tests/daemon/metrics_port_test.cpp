// The metrics port as a browser, a scraper and somebody who means ill see it.
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <vector>

#include "shm/snapshot.h"
#include "testing/daemon_process.h"
#include "tests/daemon/http_peer.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;
using nlohmann::json;

namespace {

json json_at(std::uint16_t port, const std::string& path) {
    return json::parse(body_of(http_get(port, path)));
}

// The seconds that the daemon has told of so far.
json seconds_at(std::uint16_t port) {
    return json_at(port, "/recent.json").at("seconds");
}

std::string header(const std::string& answer, const std::string& name) {
    const auto begin = answer.find("\r\n" + name + ": ");
    if (begin == std::string::npos || begin > answer.find("\r\n\r\n")) return "";
    const auto from = begin + name.size() + 4;
    return answer.substr(from, answer.find("\r\n", from) - from);
}

}  // namespace

TEST_CASE("the daemon serves every file that its page asks for, with the file's type") {
    const Watched watched;
    const std::string page = http_get(watched.port, "/");
    CHECK_THAT(page, Contains("200 OK") && Contains("<!DOCTYPE html>"));
    CHECK(header(page, "Content-Type") == "text/html; charset=utf-8");
    CHECK(page.find("://") == std::string::npos);
    for (const auto& [path, type] : std::map<std::string, std::string>{{"/page.css", "text/css"},
                                                                       {"/icon.svg", "image/svg+xml"},
                                                                       {"/page.js", "text/javascript"},
                                                                       {"/recent.js", "text/javascript"},
                                                                       {"/panels.js", "text/javascript"},
                                                                       {"/chart.js", "text/javascript"},
                                                                       {"/words.js", "text/javascript"}}) {
        const std::string file = http_get(watched.port, path);
        INFO(path);
        CHECK_THAT(file, Contains("200 OK"));
        CHECK(header(file, "Content-Type") == type + "; charset=utf-8");
        CHECK(header(file, "Content-Length") == std::to_string(body_of(file).size()));
    }
}

TEST_CASE("no answer lets a browser run, frame or read what it should not") {
    const Watched watched;
    for (const char* path : {"/", "/metrics", "/snapshot.json", "/nothing"}) {
        const std::string answer = http_get(watched.port, path);
        INFO(path);
        CHECK_THAT(header(answer, "Content-Security-Policy"),
                   Contains("default-src 'self'") && Contains("frame-ancestors 'none'"));
        CHECK_THAT(header(answer, "Content-Security-Policy"), !Contains("unsafe"));
        CHECK(header(answer, "X-Content-Type-Options") == "nosniff");
        CHECK(header(answer, "Cross-Origin-Resource-Policy") == "same-origin");
        CHECK(header(answer, "Access-Control-Allow-Origin").empty());
    }
}

TEST_CASE("a request that cannot be answered is refused with what would be right") {
    const Watched watched;
    const auto ask = [&](const std::string& request) { return http_exchange(watched.port, request); };
    CHECK_THAT(http_get(watched.port, "/nothing"), Contains("404 Not Found") && Contains("/metrics") &&
                                                       Contains("/readyz") && Contains("/recent.json"));
    CHECK_THAT(http_get(watched.port, "/page.js/"), Contains("404"));
    CHECK_THAT(http_get(watched.port, "/../etc/passwd"), Contains("404"));
    CHECK_THAT(http_get(watched.port, "//"), Contains("404"));
    CHECK_THAT(ask("POST / HTTP/1.1\r\n\r\n"), Contains("405") && Contains("Allow: GET, HEAD"));
    CHECK_THAT(ask("\r\n\r\n"), Contains("405"));
    CHECK_THAT(ask("GET\r\n\r\n"), Contains("404"));
    CHECK_THAT(ask("GET /livez\r\n\r\n"), Contains("200 OK"));
    CHECK_THAT(ask("GET /" + std::string(9000, 'a')), Contains("431") && Contains("8192"));
    CHECK_THAT(http_get(watched.port, "/livez?why=not"), Contains("200 OK"));
    for (const char* after : {"x", "-1", "1x", "99999999999999999999", "%31"}) {
        INFO(after);
        CHECK_THAT(http_get(watched.port, std::string("/recent.json?after=") + after),
                   Contains("400") && Contains("after=120"));
    }
    CHECK_THAT(http_get(watched.port, "/recent.json?x=1&after=&y"), Contains("200 OK"));
}

TEST_CASE("HEAD is answered as GET is, without the body") {
    const Watched watched;
    const std::string got = http_get(watched.port, "/page.css");
    const std::string head =
        http_exchange(watched.port, "HEAD /page.css HTTP/1.1\r\nHost: localhost\r\n\r\n");
    CHECK(head == got.substr(0, got.find("\r\n\r\n") + 4));
    CHECK(body_of(got).size() > 1000);
}

TEST_CASE("answers that every user may read contain no session's id, file or process") {
    Watched watched;
    watched.engine.admit(4);
    watched.engine.steps(2);
    const auto seen = shm::observe(watched.daemon.shm_directory(), watched.daemon.instance());
    const std::string id = std::to_string(seen.value().sessions.at(0).id);
    REQUIRE(id.size() > 5);
    // The engine may have come after the first second that was kept.
    REQUIRE(eventually(
        [&] { return http_get(watched.port, "/recent.json").find("engine") != std::string::npos; }));
    for (const char* path : {"/snapshot.json", "/recent.json", "/metrics"}) {
        INFO(path);
        CHECK_THAT(http_get(watched.port, path), Contains("engine") && !Contains(id) && !Contains(".seg"));
    }
    const json session = json_at(watched.port, "/snapshot.json").at("sessions").at(0);
    CHECK(session.at("client") == json({{"alive", true}}));
    CHECK_FALSE(session.contains("writer_pids"));
    // Of a segment that is broken, neither: the fault of one names its file.
    const auto segment = shm::Segment::attach(watched.engine.segment_path(), shm::Access::read_write);
    segment.value().header().magic = 0;
    CHECK(eventually(
        [&] { return json_at(watched.port, "/snapshot.json").dump().find("fault") != std::string::npos; }));
    CHECK_THAT(http_get(watched.port, "/snapshot.json"), !Contains(id) && !Contains(".seg"));
    segment.value().header().magic = proto::kSegmentMagic;
}

TEST_CASE("/snapshot.json and the sum of /recent.json tell what /metrics tells") {
    Watched watched;
    watched.engine.admit(8);
    // The first observation says from where to count.
    REQUIRE(eventually([&] { return !seconds_at(watched.port).empty(); }));
    watched.engine.steps(5);
    REQUIRE(watched.engine.counted(40));
    const auto told = [&] {
        const json recent = json_at(watched.port, "/recent.json");
        std::uint64_t columns = 0;
        for (const auto& second : recent.at("seconds"))
            for (const auto& session : second.at("sessions")) columns += session.at(1).get<std::uint64_t>();
        return columns;
    };
    CHECK(eventually([&] { return told() == 40; }));
    // A step may be counted in a later second than its columns.
    REQUIRE(eventually([&] {
        const auto now = watched.metrics();
        return now.at("croupier_session_step_seconds_count{session=\"engine\"}") == 5 &&
               now.contains("croupier_recent_step_seconds{session=\"engine\",quantile=\"0.99\"}");
    }));
    const json session = json_at(watched.port, "/snapshot.json").at("sessions").at(0);
    CHECK(session.at("counters").at("columns_decided") == 40);
    const auto metrics = watched.metrics();
    CHECK(metrics.at("croupier_columns_decided_total{session=\"engine\"}") == 40);
    // The client counts a step's time when it takes the step, which may be in a later second than its
    // columns.
    CHECK(eventually([&] {
        const auto now = watched.metrics();
        return now.at("croupier_recent_step_part_seconds{session=\"engine\",part=\"decision\"}") ==
               Approx(now.at("croupier_step_decision_seconds_total{session=\"engine\"}") / 5).epsilon(0.01);
    }));
    CHECK(metrics.at("croupier_session_step_seconds_count{session=\"engine\"}") == 5);
    CHECK(metrics.at("croupier_session_step_seconds_sum{session=\"engine\"}") ==
          Approx(metrics.at("croupier_step_decision_seconds_total{session=\"engine\"}")).epsilon(0.01));
    CHECK(metrics.at("croupier_recent_step_seconds{session=\"engine\",quantile=\"0.99\"}") > 0);
    CHECK(metrics.at("croupier_journal_entries_lost_total") == 0);
    CHECK(metrics.at("croupier_overlap_ratio{session=\"engine\"}") <= 1.0);
    CHECK(metrics.at("croupier_recent_column_delay_seconds{session=\"engine\"}") > 0);
    CHECK(metrics.at("croupier_recent_stage_seconds{stage=\"decide\",quantile=\"0.99\"}") >=
          metrics.at("croupier_recent_stage_seconds{stage=\"decide\",quantile=\"0.5\"}"));
}

TEST_CASE("/metrics tells how much shared memory is free") {
    Watched watched;
    struct statvfs space {};
    REQUIRE(::statvfs(watched.daemon.shm_directory().c_str(), &space) == 0);
    const auto metrics = watched.metrics();
    const auto size = static_cast<double>(space.f_blocks * space.f_frsize);
    CHECK(metrics.at("croupier_shm_size_bytes") == size);
    CHECK((metrics.at("croupier_shm_free_bytes") > 0 && metrics.at("croupier_shm_free_bytes") < size));
}

TEST_CASE("a share of which nothing was counted has no sample, so that no alarm fires on it") {
    Watched watched;
    REQUIRE(eventually([&] { return !seconds_at(watched.port).empty(); }));
    const auto metrics = watched.metrics();
    CHECK_FALSE(metrics.contains("croupier_overlap_ratio{session=\"engine\"}"));
    CHECK_FALSE(metrics.contains("croupier_hot_acceptance_ratio{session=\"engine\"}"));
    CHECK(metrics.contains("croupier_session_client_up{session=\"engine\"}"));
}

TEST_CASE("a daemon that is started again counts its seconds from 1, and says when it began") {
    Watched watched;
    watched.engine.admit(8);
    watched.engine.steps(3);
    REQUIRE(watched.engine.counted(24));
    REQUIRE(eventually([&] { return !seconds_at(watched.port).empty(); }));
    const json before = json_at(watched.port, "/recent.json");
    watched.daemon.restart_after_kill();
    REQUIRE(watched.daemon.await_ready());
    REQUIRE(eventually([&] { return !seconds_at(watched.port).empty(); }));
    const json after = json_at(watched.port, "/recent.json");
    CHECK(after.at("began_unix_ms") > before.at("began_unix_ms"));
    CHECK(after.at("seconds").at(0).at("number") == 1);
    // The session's life goes on, and what it did before is no second's work.
    std::uint64_t columns = 0;
    for (const auto& second : after.at("seconds"))
        for (const auto& session : second.at("sessions")) columns += session.at(1).get<std::uint64_t>();
    CHECK(columns == 0);
    CHECK(after.at("serving") == "ready");
}

TEST_CASE("clients that never read their answers do not hold up others") {
    Watched watched;
    watched.engine.admit(8);
    std::vector<int> deaf;
    for (int i = 0; i < 200; ++i) {
        deaf.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const int small = 1;
        ::setsockopt(deaf.back(), SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
        const sockaddr_in address = loopback(watched.port);
        REQUIRE(::connect(deaf.back(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
        const std::string request = "GET /panels.js HTTP/1.1\r\n\r\n";
        REQUIRE(::send(deaf.back(), request.data(), request.size(), MSG_NOSIGNAL) > 0);
        if (i % 40 == 0) CHECK_THAT(http_get(watched.port, "/livez"), Contains("200 OK"));
    }
    CHECK_THAT(http_get(watched.port, "/"), Contains("200 OK"));
    const auto kept = seconds_at(watched.port).size();
    CHECK(eventually([&] { return seconds_at(watched.port).size() > kept; }));
    for (const int fd : deaf) ::close(fd);
}

TEST_CASE("/metrics and /snapshot.json give each sampler's number of threads") {
    const std::uint16_t port = free_port();
    const DaemonProcess daemon("{count: 2, threads_per_sampler: 4}",
                               "metrics: {listen: \"127.0.0.1:" + std::to_string(port) + "\"}");
    const auto metrics = samples(http_get(port, "/metrics"));
    CHECK(metrics.at("croupier_sampler_threads{sampler=\"0\"}") == 4);
    CHECK(metrics.at("croupier_sampler_threads{sampler=\"1\"}") == 4);
    CHECK(json_at(port, "/snapshot.json").at("daemon").at("threads_per_sampler") == 4);
}

// Which Host headers are answered: a page of another site must not read the answers through a name of its own
// that leads here (DNS rebinding).
#include "daemon/observation/http_hosts.h"

#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <climits>
#include <string>

#include "tests/daemon/http_peer.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;
using daemon::HttpHosts;

namespace {

int status_of(const HttpHosts& hosts, const std::string& headers, const std::string& version = "HTTP/1.1") {
    const auto refused = hosts.refusal("GET /metrics " + version + "\r\n" + headers + "\r\n");
    return refused ? refused->status : 200;
}

int status_of_name(const HttpHosts& hosts, const std::string& name) {
    return status_of(hosts, "Host: " + name + "\r\n");
}

std::string machine_name() {
    std::array<char, HOST_NAME_MAX + 1> name{};
    ::gethostname(name.data(), name.size() - 1);
    return name.data();
}

}  // namespace

TEST_CASE("addresses, localhost, the host's own name and configured ones are answered, with any port") {
    const HttpHosts hosts("node-7.example.com:9464", {"metrics.example.com", "Croupier.Monitoring.SVC"});
    for (const std::string& name :
         {std::string("127.0.0.1"), std::string("10.1.2.3"), std::string("[::1]"),
          std::string("[2001:db8::7]"), std::string("[fe80::1%eth0]"), std::string("localhost"),
          machine_name(), std::string("node-7.example.com"), std::string("metrics.example.com"),
          std::string("croupier.monitoring.svc"), std::string("METRICS.Example.COM"),
          std::string("LOCALHOST"), std::string("localhost."), std::string("metrics.example.com.")}) {
        INFO(name);
        CHECK(status_of_name(hosts, name) == 200);
        CHECK(status_of_name(hosts, name + ":9464") == 200);
        CHECK(status_of_name(hosts, name + ":80") == 200);
        CHECK(status_of(hosts, "hOsT:\t" + name + "  \r\n") == 200);
    }
}

TEST_CASE("any other name is refused, however it is dressed up") {
    const HttpHosts hosts("127.0.0.1:9464", {"metrics.example.com"});
    for (const char* name : {"evil.example",
                             "evil.example:9464",
                             "127.0.0.1.evil.example",
                             "localhost.evil.example",
                             "evil-localhost",
                             "metrics.example.com.evil.example",
                             "x.metrics.example.com",
                             "127.0.0.1@evil",
                             "evil.example#127.0.0.1",
                             "localhost:9464:evil",
                             "localhost:evil",
                             "[::1].evil.example",
                             "[::1",
                             "[evil.example]",
                             "[127.0.0.1]",
                             "::1",
                             "localhost..",
                             "2130706433",
                             "0x7f.1",
                             "127.1",
                             "localhost, evil.example",
                             "evil.example localhost",
                             "",
                             " ",
                             "\x80",
                             "*"}) {
        INFO(name);
        CHECK(status_of_name(hosts, name) == 421);
    }
}

TEST_CASE("one Host header is needed, and several are refused whatever they say") {
    const HttpHosts hosts("127.0.0.1:9464", {});
    CHECK(status_of(hosts, "") == 400);
    CHECK(status_of(hosts, "Hostile: localhost\r\n") == 400);
    CHECK(status_of(hosts, "Host : localhost\r\n") == 400);
    CHECK(status_of(hosts, "Host: localhost\r\nHost: localhost\r\n") == 400);
    CHECK(status_of(hosts, "Host: localhost\r\nX: y\r\nhost: evil.example\r\n") == 400);
    CHECK(status_of(hosts, "Host: localhost\nHost: evil.example\r\n") == 400);
    CHECK(status_of(hosts, "X: y\nHost: evil.example\r\n") == 421);
    // Health checks that are written by hand; a browser sends the header always.
    CHECK(status_of(hosts, "", "HTTP/1.0") == 200);
    CHECK(status_of(hosts, "Host: evil.example\r\n", "HTTP/1.0") == 421);
}

TEST_CASE("a daemon answers no request under another site's name, and says what to configure") {
    const std::uint16_t port = free_port();
    const DaemonProcess daemon(kTwoSamplers, "metrics: {listen: \"127.0.0.1:" + std::to_string(port) +
                                                 "\", hosts: \"metrics.example.com, grafana.example\"}");
    const auto ask = [&](const std::string& path, const std::string& host) {
        return http_exchange(port, "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
    };
    for (const char* path : {"/", "/metrics", "/livez", "/readyz", "/snapshot.json", "/recent.json",
                             "/explain?session=a&uid=1", "/nothing", "/page.js"}) {
        INFO(path);
        const std::string answer = ask(path, "evil.example:" + std::to_string(port));
        CHECK_THAT(answer, Contains("421 Misdirected Request") && Contains("metrics.hosts"));
        CHECK_THAT(answer, !Contains("croupier_"));
    }
    CHECK_THAT(ask("/livez", "evil<script>\x01\xff"), Contains("421") && !Contains("\x01"));
    CHECK_THAT(ask("/livez", "grafana.example"), Contains("200 OK"));
    CHECK_THAT(ask("/metrics", "metrics.example.com:443"), Contains("200 OK"));
    CHECK_THAT(ask("/livez", "127.0.0.1:" + std::to_string(port)), Contains("200 OK"));
}

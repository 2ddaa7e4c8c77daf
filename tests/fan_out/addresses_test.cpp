// Where a group meets: at addresses of both families, and on a host that has one of them alone.
#include <catch2/catch.hpp>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "testing/session_files.h"
#include "tests/daemon/loopback.h"
#include "tests/fan_out/fan_out_peer.h"
#include "tests/fan_out/two_hosts.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;
using fan_out::FanOutOptions;
using fan_out::Record;

namespace {

const Record kEnd = {'e', 'n', 'd'};

bool lacks_ipv6() {
    if (has_ipv6()) return false;
    WARN("skipped: this machine has no IPv6 loopback address");
    return true;
}

// A root at one host's name or address, and members that reach it each at another.
void meet(const std::string& root_host, const std::vector<std::string>& member_hosts) {
    const std::string port = ":" + std::to_string(free_port());
    const auto at = [&](const std::string& host) { return "tcp://" + host + port; };
    FanOutOptions options;
    options.members = static_cast<std::uint32_t>(member_hosts.size()) + 1;
    options.join_timeout = std::chrono::milliseconds(10000);
    options.keys = keys_of_member();
    std::vector<std::unique_ptr<Peer>> peers;
    for (const std::string& host : member_hosts) {
        options.endpoint = at(host);
        ++options.member;
        peers.push_back(std::make_unique<Peer>(options, PeerTask::echo));
    }
    options.endpoint = at(root_host);
    options.member = 0;
    options.keys = keys_of_root();
    const auto root = need(fan_out::open_fan_out(options));
    CHECK(need(root->send(kEnd)));
    for (auto& peer : peers) CHECK(peer->wait() == 0);
}

}  // namespace

TEST_CASE("a group meets at an IPv6 address, with keys") {
    if (lacks_ipv6()) return;
    meet("[::1]", {"[::1]", "[::1]"});
    meet("[::1]", {"[::1]:0;[::1]"});
    FanOutOptions options;
    options.endpoint = "tcp://::1:7001";
    options.keys = keys_of_root();
    CHECK_THAT(fan_out::open_fan_out(options).error().message,
               Contains("tcp://::1:7001") && Contains("in brackets, as in tcp://[::1]:7001"));
}

TEST_CASE("a root at every address hears members over IPv4 and over IPv6") {
    if (lacks_ipv6()) return;
    meet("*", {"127.0.0.1", "[::1]"});
}

TEST_CASE("a root at every address hears members of a host whose IPv6 is disabled") {
    std::string why_not;
    const auto hosts = TwoHosts::in_namespaces(why_not);
    if (!hosts) {
        WARN("skipped: " << why_not);
        return;
    }
    hosts->on_engine_host([] {
        std::ofstream("/proc/sys/net/ipv6/conf/all/disable_ipv6") << 1;
        REQUIRE_FALSE(has_ipv6());
        meet("*", {"127.0.0.1"});
    });
}

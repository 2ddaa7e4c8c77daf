// Whether the doctor reaches another host exactly where a relay on this one would.
#include <cstdlib>

#include "tests/daemon/loopback.h"
#include "tests/tools/doctor_asker.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

TEST_CASE("doctor: another host of the engine is reached or not, and a round to it is timed") {
    const Sandbox sandbox;
    sandbox.write_config(kOneSampler, "");
    const Workplace place;
    const auto ask = [&](const std::string& peer) {
        return ask_doctor(place, config_of(sandbox) + kNotThisMachine + " --patience 1000 --peer " + peer);
    };
    const HeldPort held;
    const auto listening = ask("tcp://127.0.0.1:" + std::to_string(held.port()));
    CHECK_THAT(listening.what("network.peer"), Contains("accepts connections, a round takes"));
    const auto named = ask("localhost:" + std::to_string(held.port()));
    CHECK_THAT(named.what("network.peer"), Contains("accepts connections, a round takes"));
    CHECK(listening.finding("network.peer")["facts"]["round_ms"] > 0);
    const auto silent = ask("127.0.0.1:" + std::to_string(free_port()));
    CHECK_THAT(silent.what("network.peer"), Contains("can be reached, and nothing listens there now"));
    // No connection has such an end.
    const auto absent = ask("255.255.255.255:7001");
    CHECK(absent.level("network.peer") == "broken");
    CHECK_THAT(absent.what("network.peer"), Contains("255.255.255.255:7001 cannot be reached"));
    CHECK_THAT(ask("10.0.0.2").what("network.peer"), Contains("HOST:PORT would be right"));
}

TEST_CASE("doctor: a name is looked up as IPv4, as the relay looks it up") {
    const Sandbox sandbox;
    sandbox.write_config(kOneSampler, "");
    const Workplace place;
    // Not ::1, which glibc also gives as 127.0.0.1.
    place.write("hosts", "fd00::1 six\nfd00::1 both\n255.255.255.255 both\n");
    const std::string on_other_host =
        "unshare --mount --net " + after("ip link set lo up && ip addr add fd00::1 dev lo && mount --bind " +
                                         (place.path() / "hosts").string() + " /etc/hosts");
    if (std::system((on_other_host + "true 2>/dev/null").c_str()) != 0) {
        WARN("skipped: no namespaces with an IPv6 address and names of their own can be made here");
        return;
    }
    const auto ask = [&](const std::string& peer) {
        return ask_doctor(place,
                          config_of(sandbox) + kNotThisMachine + " --patience 1000 --peer '" + peer + "'",
                          on_other_host);
    };
    for (const std::string peer : {"six:7001", "fd00::1:7001"}) {
        const auto told = ask(peer);
        CHECK(told.level("network.peer") == "broken");
        CHECK_THAT(told.what("network.peer"), Contains(peer + " is no address"));
        CHECK_THAT(told.remedy("network.peer"), Contains("IPv4") && Contains("IPv6 in [ ]"));
    }
    CHECK_THAT(ask("both:7001").what("network.peer"), Contains("both:7001 cannot be reached"));
    CHECK_THAT(ask("[fd00::1]:7001").what("network.peer"), Contains("can be reached"));
}

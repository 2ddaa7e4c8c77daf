// The daemon as a whole is frozen, as `docker pause` does it: no sampler is to blame for that.
#include <catch2/catch.hpp>
#include <csignal>
#include <span>

#include "shm/clock.h"
#include "shm/plane.h"
#include "testing/child_process.h"
#include "testing/daemon_process.h"
#include "testing/shared_object.h"
#include "testing/small_engine.h"

using namespace croupier;
using namespace croupier::testing;

namespace {

constexpr std::uint64_t kHeartbeatTimeoutNs = 1'000'000'000;

}  // namespace

TEST_CASE("after a freeze longer than heartbeat_timeout_ms the supervisor kills no sampler") {
    const DaemonProcess daemon("{count: 2, heartbeat_timeout_ms: 1000}");
    const Shared<std::atomic<int>> opened;
    auto leaver = ChildProcess::start([&] {
        SmallEngine leaving(daemon.endpoint(), "leaving");
        *opened = 1;
        ::pause();
        return 0;
    });
    SmallEngine engine(daemon.endpoint(), "engine");
    engine.admit(8);
    engine.step();
    REQUIRE(eventually([&] { return *opened == 1; }));
    const pid_t samplers[] = {daemon.sampler_pid(0), daemon.sampler_pid(1)};
    const pid_t all[] = {daemon.pid(), samplers[0], samplers[1]};
    for (const pid_t process : all) ::kill(process, SIGSTOP);
    for (const pid_t process : all) REQUIRE(eventually([&] { return is_stopped(process); }));
    leaver.kill_and_reap();
    const shm::Plane plane = daemon.plane();
    for (const auto& sampler : std::span(plane.header().samplers).first(2)) {
        const std::uint64_t silent_until = sampler.heartbeat_ns.load() + kHeartbeatTimeoutNs;
        REQUIRE(eventually([&] { return shm::monotonic_ns() > silent_until; }));
    }
    ::kill(daemon.pid(), SIGCONT);
    // It looks for dead writers after it has listened to the samplers.
    const bool looked = eventually([&] { return daemon.says("the writer of rank 1 is gone"); });
    for (const pid_t process : samplers) ::kill(process, SIGCONT);
    REQUIRE(looked);
    engine.steps(3);
    CHECK(daemon.sampler_restarts() == 0);
    CHECK_FALSE(daemon.says("sent no heartbeat"));
}

// `croupier ping`, and what commands say of a daemon that they cannot look at.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <nlohmann/json.hpp>
#include <string>

#include "shm/plane.h"
#include "testing/child_process.h"
#include "testing/daemon_process.h"
#include "testing/workplace.h"

namespace croupier {
namespace {

using testing::DaemonProcess;
using testing::Ended;

constexpr uid_t kNobody = 65534;

}  // namespace

TEST_CASE("croupier ping tells in one line whether the daemon is alive, stopped, dead or not there") {
    DaemonProcess daemon;
    const testing::Workplace place;
    const std::string where = "-i " + daemon.instance() + " --shm-dir " + daemon.shm_directory();
    const auto pinged = [&](int status, const std::string& end) {
        const Ended ended = place.run("ping " + where);
        INFO(ended.output);
        CHECK(ended.status == status);
        CHECK(ended.output.starts_with("croupierd, instance " + daemon.instance() + ", pid " +
                                       std::to_string(daemon.pid()) + ": " + end));
    };
    pinged(0, "alive, up ");
    CHECK(nlohmann::json::parse(place.run("ping --json " + where).output).at("alive") == true);
    daemon.signal(SIGSTOP);
    REQUIRE(testing::eventually([&] { return testing::is_stopped(daemon.pid()); }));
    pinged(3, "stopped by a signal");
    daemon.signal(SIGCONT);
    const Ended nobody = place.run("ping -i nobody");
    CHECK(nobody.status == 1);
    CHECK(nobody.output.find("; is croupierd running, with the instance name 'nobody'?\n") !=
          std::string::npos);
}

TEST_CASE("a user who may not look at the daemon is told who may") {
    if (::geteuid() != 0) return;  // only root can become another user
    const DaemonProcess daemon;
    auto other = testing::ChildProcess::start([&] {
        if (::setresuid(kNobody, kNobody, kNobody) != 0) return 2;
        const auto plane =
            shm::Plane::attach(daemon.shm_directory(), daemon.instance(), shm::Access::read_only);
        if (plane || plane.error().code != shm::Errc::permission_denied) return 3;
        const std::string& said = plane.error().message;
        if (said.find("shm.mode") != std::string::npos) return 4;
        return said.ends_with(".plane: Permission denied; run as root or the daemon's user") ? 0 : 5;
    });
    CHECK(other.wait() == 0);
}

}  // namespace croupier

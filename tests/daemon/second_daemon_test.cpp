// Two daemons that get in each other's way: the later one is refused, and the earlier one serves on.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>

#include "shm/file.h"
#include "testing/child_process.h"
#include "testing/daemon_process.h"
#include "testing/file_text.h"
#include "testing/small_engine.h"
#include "tests/daemon/loopback.h"
#include "tests/shm/second_user.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

// Ends a daemon that gets as far as its metrics, which it should not.
std::string doomed_metrics(const HeldPort& held) {
    return metrics_at(held) + "\n";
}

// A daemon that is started and not waited for.
class Starting {
  public:
    Starting(const Sandbox& sandbox, const std::string& extra) : log_(sandbox.directory() + "/log") {
        sandbox.write_config(kTwoSamplers, extra);
        const std::string command =
            "exec " CROUPIERD_PATH " --config " + sandbox.config_path() + " >" + log_ + " 2>&1";
        process_ = std::make_unique<ChildProcess>(ChildProcess::start(
            [&] { return ::execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr)); }));
    }

    bool says(const std::string& text) const {
        return text_of(log_).value_or("").find(text) != std::string::npos;
    }

  private:
    std::string log_;
    std::unique_ptr<ChildProcess> process_;
};

}  // namespace

TEST_CASE("of two daemons that start at the same time in one shm.dir, with a run_dir each, one serves") {
    for (int round = 0; round < 10; ++round) {
        const Sandbox first;
        const Sandbox second;
        const Starting one(first, "");
        const Starting other(
            second, "instance: " + first.instance() + "\nshm: {dir: \"" + first.shm_directory() + "\"}\n");
        const std::string refusal = "a live daemon of instance " + first.instance();
        REQUIRE(eventually([&] {
            return (one.says("ready: ") && other.says(refusal)) ||
                   (other.says("ready: ") && one.says(refusal));
        }));
    }
}

TEST_CASE("a second daemon at the endpoints of the first is refused, and the first one is still reached") {
    const DaemonProcess first;
    const Sandbox second;
    const HeldPort held;
    second.write_config(kTwoSamplers,
                        doomed_metrics(held) + "control: {endpoint: \"" + first.endpoint() + "\"}\n");
    const Ended ended = run_croupierd(second, {"--config", second.config_path()});
    CHECK(ended.status == 1);
    CHECK_THAT(ended.output, Contains("cannot bind " + first.endpoint()) &&
                                 Contains("another process serves it") && Contains("of its own"));
    CHECK(second.files_in_shm() == 0);
    SmallEngine engine(first.endpoint(), "engine");
    engine.admit(4);
    engine.steps(2);
}

TEST_CASE("a daemon does not take over a socket path on which another process listens") {
    const Sandbox sandbox;
    const HeldPort held;
    const shm::FileDescriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = sandbox.directory() + "/control.sock";
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    REQUIRE(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
    REQUIRE(::listen(listener.get(), 1) == 0);
    sandbox.write_config(kTwoSamplers, doomed_metrics(held));
    const Ended ended = run_croupierd(sandbox, {"--config", sandbox.config_path()});
    CHECK(ended.status == 1);
    CHECK_THAT(ended.output, Contains("cannot bind " + sandbox.endpoint()));
    const shm::FileDescriptor caller(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    CHECK(::connect(caller.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
}

TEST_CASE("a daemon of the same instance with another run_dir is refused, also while no sampler lives") {
    const DaemonProcess first("{count: 1, restart_backoff_ms: 60000}");
    ::kill(first.sampler_pid(0), SIGKILL);
    REQUIRE(eventually([&] { return !first.plane().sampler_alive(0); }));
    const Sandbox second;
    const HeldPort held;
    second.write_config(kTwoSamplers, doomed_metrics(held) + "instance: " + first.instance() +
                                          "\nshm: {dir: \"" + first.shm_directory() + "\"}\n");
    const Ended ended = run_croupierd(second, {"--config", second.config_path()});
    CHECK(ended.status == 1);
    CHECK_THAT(ended.output,
               Contains("a live daemon of instance " + first.instance()) && Contains("run_dir"));
    REQUIRE(shm::Plane::attach(first.shm_directory(), first.instance(), shm::Access::read_only));
    CHECK(first.plane().header().daemon_pid == first.pid());
}

TEST_CASE("a daemon waits for samplers of another version, and names the one that does not end") {
    DaemonProcess daemon;
    daemon.kill_now();
    const std::string path = shm::plane_path(daemon.shm_directory(), daemon.instance());
    // What a daemon of another version left: other content, the same locks.
    std::ofstream(path) << "a plane of another version";
    const auto file = shm::open_file(path, shm::Access::read_write);
    // The dead sampler may still hold it.
    REQUIRE(eventually([&] { return shm::try_lock_byte(file.value(), 1); }));
    daemon.start();
    REQUIRE(eventually([&] {
        const std::string log = daemon.log();
        // A second line of this kind: it did not wait.
        return log.find("does not end") != std::string::npos || log.find("ready: ") != log.rfind("ready: ");
    }));
    CHECK_THAT(daemon.log(), Contains("sampler 0 of the dead daemon does not end") && Contains(path));
    CHECK(daemon.await_end() == 1);
    shm::unlock_byte(file.value(), 1);
    daemon.start();
    CHECK(daemon.await_ready());
}

TEST_CASE(
    "another user can neither hold an instance's lock, nor have a file overwritten by a link in its place") {
    DaemonProcess daemon;
    const std::string lock = daemon.directory() + "/" + daemon.instance() + ".lock";
    REQUIRE(daemon.terminate() == 0);
    CHECK_FALSE(std::filesystem::exists(lock));
    // As a daemon leaves it that is killed.
    std::ofstream(lock) << "1";
    const HeldPort held;
    const auto refusal = [&] {
        daemon.write_config(kTwoSamplers, doomed_metrics(held));
        const Ended ended = run_croupierd(daemon, {"--config", daemon.config_path()});
        CHECK(ended.status == 1);
        return ended.output;
    };
    SECTION("a lock that others may read is so no more") {
        std::filesystem::permissions(lock, std::filesystem::perms(0644));
        daemon.start();
        REQUIRE(daemon.await_ready());
        CHECK(std::filesystem::status(lock).permissions() == std::filesystem::perms(0600));
    }
    SECTION("a link is not followed") {
        const std::string target = daemon.directory() + "/precious";
        std::ofstream(target) << "content";
        std::filesystem::remove(lock);
        std::filesystem::create_symlink(target, lock);
        CHECK_THAT(refusal(), Contains(lock) && Contains("link"));
        CHECK(std::filesystem::file_size(target) == 7);
    }
    SECTION("what is no file is refused") {
        std::filesystem::remove(lock);
        REQUIRE(::mkfifo(lock.c_str(), 0600) == 0);
        CHECK_THAT(refusal(), Contains(lock + " is not a regular file"));
    }
    SECTION("another user's file is refused") {
        if (!shm::can_change_user()) return;
        REQUIRE(::chown(lock.c_str(), shm::kNobody, shm::kNobody) == 0);
        CHECK_THAT(refusal(), Contains(lock + " belongs to uid 65534"));
    }
}

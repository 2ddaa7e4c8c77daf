// The daemon as a user of its own, as the unit runs it: with a group of engines, and limits that others set.
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>

#include "testing/child_process.h"
#include "testing/daemon_process.h"
#include "testing/file_text.h"
#include "testing/small_engine.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

constexpr uid_t kDaemonUser = 40123;
constexpr gid_t kDaemonGroup = 40124;
constexpr gid_t kEngines = 40125;
constexpr uid_t kEngineUser = 40126;
constexpr gid_t kOtherEngines = 40128;
// Whose processes are counted: nobody else may have any.
constexpr uid_t kLimitedUser = 40127;

bool is_root() {
    if (::geteuid() == 0) return true;
    WARN("skipped: only root can start a daemon as another user");
    return false;
}

// A daemon that runs as `user`, a member of kEngines, under the limits that prlimit(1) is told.
class UsersDaemon : public Sandbox {
  public:
    UsersDaemon(uid_t user, const std::string& extra, const std::string& limits) {
        std::filesystem::permissions(directory(), std::filesystem::perms::owner_all |
                                                      std::filesystem::perms::others_exec |
                                                      std::filesystem::perms::group_exec);
        REQUIRE(::chown(directory().c_str(), user, kDaemonGroup) == 0);
        start(user, extra, limits);
    }

    // The one before is killed.
    void start(uid_t user, const std::string& extra, const std::string& limits) {
        process_.reset();
        std::filesystem::remove(log_path());
        write_config(kTwoSamplers, extra);
        std::filesystem::permissions(config_path(), std::filesystem::perms::others_read,
                                     std::filesystem::perm_options::add);
        const std::string command = "exec prlimit " + limits + " setpriv --reuid " + std::to_string(user) +
                                    " --regid " + std::to_string(kDaemonGroup) + " --groups " +
                                    std::to_string(kEngines) + "," + std::to_string(kOtherEngines) +
                                    " " CROUPIERD_PATH " --config " + config_path() + " >" + log_path() +
                                    " 2>&1";
        process_.emplace(ChildProcess::start(
            [&] { return ::execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr)); }));
    }

    bool says(const std::string& text) const { return log().find(text) != std::string::npos; }
    std::string log() const { return text_of(log_path()).value_or(""); }

  private:
    std::string log_path() const { return directory() + "/log"; }
    std::optional<ChildProcess> process_;
};

gid_t group_of(const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 ? status.st_gid : 0;
}

// A step of an engine that is another user, and a member of kEngines only.
int step_as_engine(const std::string& endpoint, gid_t group = kEngines) {
    if (::setgid(group) != 0 || ::setuid(kEngineUser) != 0) return 2;
    try {
        SmallEngine engine(endpoint, "engine");
        engine.admit(2);
        engine.step();
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "engine: %s\n", failure.what());
        return 1;
    }
    return 0;
}

// The supervisor, two threads of ZMQ, and one sampler.
constexpr const char* kRoomForOneSampler = "--nproc=4";

}  // namespace

TEST_CASE("shm.group takes a number, and a member of that group alone is an engine") {
    if (!is_root()) return;
    const UsersDaemon daemon(kDaemonUser,
                             "shm: {dir: \"@shm@\", group: \"" + std::to_string(kEngines) + "\"}", "");
    auto engine = ChildProcess::start([&] {
        if (!eventually([&] { return daemon.says("ready: "); })) return 3;
        return step_as_engine(daemon.endpoint());
    });
    CHECK(engine.wait() == 0);
    INFO(daemon.log());
    CHECK(group_of(daemon.directory() + "/control.sock") == kEngines);
}

TEST_CASE("shm.group rules what an earlier start left, too") {
    if (!is_root()) return;
    UsersDaemon daemon(kDaemonUser, "shm: {dir: \"@shm@\", mode: \"0600\"}", "");
    REQUIRE(eventually([&] { return daemon.says("ready: "); }));
    daemon.start(kDaemonUser, "shm: {dir: \"@shm@\", group: \"" + std::to_string(kEngines) + "\"}", "");
    auto engine = ChildProcess::start([&] {
        if (!eventually([&] { return daemon.says("ready: "); })) return 3;
        return step_as_engine(daemon.endpoint());
    });
    INFO(daemon.log());
    CHECK(engine.wait() == 0);
}

TEST_CASE("two instances with a group each share a directory") {
    if (!is_root()) return;
    const auto group = [](gid_t gid) { return ", group: \"" + std::to_string(gid) + "\"}"; };
    const UsersDaemon one(kDaemonUser, "shm: {dir: \"@shm@\"" + group(kEngines), "");
    REQUIRE(eventually([&] { return one.says("ready: "); }));
    const UsersDaemon other(kDaemonUser, "shm: {dir: \"" + one.shm_directory() + "\"" + group(kOtherEngines),
                            "");
    REQUIRE(eventually([&] { return other.says("ready: "); }));
    for (const auto& served : {std::pair(&one, kEngines), std::pair(&other, kOtherEngines)}) {
        auto engine =
            ChildProcess::start([&] { return step_as_engine(served.first->endpoint(), served.second); });
        INFO(served.first->log());
        CHECK(engine.wait() == 0);
    }
}

TEST_CASE("a directory in a volume with the set-group-ID bit gives its own group to new files") {
    if (!is_root()) return;
    const Sandbox volume;
    REQUIRE(::chown(volume.directory().c_str(), kDaemonUser, kEngines) == 0);
    REQUIRE(::chmod(volume.directory().c_str(), 02771) == 0);
    const UsersDaemon daemon(kDaemonUser, "shm: {dir: \"" + volume.directory() + "/shm\"}", "");
    REQUIRE(eventually([&] { return daemon.says("ready: "); }));
    auto engine = ChildProcess::start([&] {
        // The socket is the daemon's own group's: a member of both.
        const std::array<gid_t, 1> groups = {kDaemonGroup};
        if (::setgroups(groups.size(), groups.data()) != 0) return 4;
        return step_as_engine(daemon.endpoint());
    });
    INFO(daemon.log());
    CHECK(engine.wait() == 0);
}

TEST_CASE("a directory that others could list is closed at the start, and nobody else can keep it locked") {
    if (!is_root()) return;
    const Sandbox place;
    REQUIRE(::chmod(place.directory().c_str(), 0711) == 0);
    const std::string path = place.directory() + "/shm";
    REQUIRE(::mkdir(path.c_str(), 0755) == 0);
    REQUIRE(::chmod(path.c_str(), 0755) == 0);
    REQUIRE(::chown(path.c_str(), kDaemonUser, kDaemonGroup) == 0);
    const UsersDaemon daemon(kDaemonUser, "shm: {dir: \"" + path + "\"}", "");
    REQUIRE(eventually([&] { return daemon.says("ready: "); }));
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 07777U) == 0711);
}

TEST_CASE("a group that the daemon's user is no member of is refused by name") {
    if (!is_root()) return;
    const UsersDaemon daemon(kDaemonUser, "shm: {dir: \"@shm@\", group: \"40999\"}", "");
    REQUIRE(eventually([&] { return daemon.says("cannot start") || daemon.says("ready: "); }));
    CHECK_THAT(daemon.log(), Contains("40999") && Contains("has to be a member of it"));
}

TEST_CASE("a sampler that cannot start does not keep the daemon from being ready") {
    if (!is_root()) return;
#if defined(__SANITIZE_THREAD__)
    WARN("skipped: each process has a thread of ThreadSanitizer's too, which starts when it likes");
    return;
#endif
    const UsersDaemon daemon(kLimitedUser, "", kRoomForOneSampler);
    CHECK(eventually([&] { return daemon.says("cannot start sampler 1"); }));
    CHECK(eventually([&] { return daemon.says("ready: "); }));
}

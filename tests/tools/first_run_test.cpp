// A user's first run with only the programs: without configuration and root, on a host with other users.
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "croupier/client.hpp"
#include "proto/default_paths.h"
#include "testing/child_process.h"
#include "testing/daemon_process.h"
#include "testing/file_text.h"
#include "tests/daemon/loopback.h"
#include "tests/shm/second_user.h"
#include "tests/tools/fresh_user.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

namespace fs = std::filesystem;

constexpr mode_t kMode = 07777;

struct stat status_of(const std::string& path) {
    struct stat status {};
    REQUIRE(::lstat(path.c_str(), &status) == 0);
    return status;
}

void make_folder(const std::string& path, uid_t owner, mode_t mode = 0755) {
    REQUIRE(::mkdir(path.c_str(), mode) == 0);
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    REQUIRE(::chown(path.c_str(), owner, owner) == 0);
}

constexpr int kCannotUnshare = 77;

// A daemon of root at the host's paths that admits all users.
class HostDaemon {
  public:
    explicit HostDaemon(const std::string& place) {
        const std::string file = place + "/host.yaml";
        std::ofstream(file) << "samplers: {count: 1}\nshm: {mode: \"0666\"}\ncontrol: {ipc_mode: \"0666\"}\n"
                               "metrics: {listen: \"off\"}\n";
        const std::string log = place + "/host.log";
        daemon_ = ChildProcess::execute({CROUPIERD_PATH, "--config", file}, log, SIGKILL);
        if (!eventually([&] { return text_of(log).value_or("").find("ready: ") != std::string::npos; }))
            throw std::runtime_error("the host's daemon is not ready");
    }

  private:
    ChildProcess daemon_;
};

// The instance that an engine of this user reaches without an endpoint; empty if it reaches no daemon.
std::string segment_of(const User& user) {
    const std::string told = user.place() + "/segment";
    fs::remove(told);
    auto engine = ChildProcess::start([&] {
        ::setenv("XDG_RUNTIME_DIR", user.runtime().c_str(), 1);
        const int file = ::open(told.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (::setgroups(0, nullptr) != 0 || ::setgid(user.uid()) != 0 || ::setuid(user.uid()) != 0) return 1;
        try {
            client::OpenOptions options;
            options.dtype = CROUPIER_BF16;
            options.vocab = 64;
            client::Session session(options);
            const std::string path = session.segment_path();
            // Its name is free for the next one.
            session.close();
            return ::write(file, path.data(), path.size()) > 0 ? 0 : 1;
        } catch (const std::exception&) {
            return 1;
        }
    });
    engine.wait();
    return text_of(told).value_or("");
}

// 0 if each engine reached the right daemon; otherwise the step that failed.
int step_of_defaults(const User& user) {
    if (!segment_of(user).empty()) return 1;
    const HostDaemon host(user.place());
    if (!segment_of(user).starts_with("/dev/shm/croupier/")) return 2;
    User own;
    own.start();
    if (!own.becomes_ready()) return 3;
    if (!segment_of(own).starts_with(own.usual_shm_dir() + "/")) return 4;
    own.kill_daemon();
    return segment_of(own).starts_with("/dev/shm/croupier/") ? 0 : 5;
}

std::string endpoint_in(const std::string& run_dir) {
    return "ipc://" + run_dir + "/control.sock";
}

// Of the daemon that serves the user.
constexpr const char* kShortSim =
    "--endpoint default --vocab 1024 --batch 2 --steps 20 --prompt-max 16 --json";

}  // namespace

TEST_CASE("first run: croupierd of an ordinary user works without a file and leaves nothing behind") {
    if (!shm::can_change_user()) return;
    User user;
    user.start();
    REQUIRE(user.becomes_ready());
    INFO(user.log());
    CHECK_THAT(user.log(), Contains("control at " + endpoint_in(user.run_dir())) &&
                               Contains("segments in " + user.usual_shm_dir()) &&
                               Contains("page at http://127.0.0.1:") && Contains("built-in defaults"));
    CHECK((status_of(user.run_dir()).st_mode & kMode) == 0700);
    CHECK((status_of(user.usual_shm_dir()).st_mode & kMode) == 0711);
    const Ended status = user.run("croupier", "status");
    CHECK(status.status == 0);
    CHECK_THAT(status.output, Contains("instance default") && Contains("alive"));
    const Ended top = user.run("croupier", "top --once --interval 0.1");
    CHECK(top.status == 0);
    const Ended sim = user.run("croupier-sim", kShortSim);
    INFO(sim.output);
    CHECK(sim.status == 0);
    const Ended doctor = user.run("croupier", "doctor --json --python none --skip cpu --skip memory");
    INFO(doctor.output);
    CHECK_THAT(doctor.output, Contains("a daemon answers at " + endpoint_in(user.run_dir())));
    CHECK(user.stop() == 0);
    CHECK_FALSE(fs::exists(user.run_dir()));
    CHECK(user.shm_dirs().empty());
    CHECK_THAT(user.run("croupier", "cleanup").output, Contains("nothing to remove"));
}

TEST_CASE("first run: without a runtime directory the sockets are in a private folder in /tmp") {
    if (!shm::can_change_user()) return;
    User user;
    SECTION("none is named") {
        user.without_runtime();
    }
    SECTION("the one that is named is another user's") {
        REQUIRE(::chown(user.runtime().c_str(), shm::kNobody, shm::kNobody) == 0);
    }
    SECTION("others may write to the one that is named") {
        REQUIRE(::chmod(user.runtime().c_str(), 0777) == 0);
    }
    user.start();
    INFO(user.log());
    REQUIRE(user.becomes_ready());
    CHECK((status_of(user.run_dir_in_tmp()).st_mode & kMode) == 0700);
    CHECK(user.run("croupier", "status").status == 0);
    CHECK(user.run("croupier-sim", kShortSim).status == 0);
    CHECK(user.stop() == 0);
    CHECK_FALSE(fs::exists(user.run_dir_in_tmp()));
}

TEST_CASE("first run: before a daemon runs, doctor examines the one that its user would start") {
    if (!shm::can_change_user() || fs::exists("/run/croupier") || fs::exists("/etc/croupier")) return;
    User user;
    if (GENERATE(true, false)) user.without_runtime();
    const Ended doctor = user.run("croupier", "doctor --python none --skip cpu --skip memory");
    INFO(doctor.output);
    CHECK(doctor.status == 0);
    CHECK_THAT(doctor.output, Contains("the daemon will create " + user.usual_shm_dir()));
}

TEST_CASE("first run: a folder in /tmp of another user is not used, and the error says what to do") {
    if (!shm::can_change_user()) return;
    User user;
    user.without_runtime();
    SECTION("a folder of theirs") {
        make_folder(user.run_dir_in_tmp(), shm::kNobody, 0777);
        user.start();
        CHECK(user.await_end() == 1);
        CHECK_THAT(user.log(), Contains("belongs to uid 65534"));
    }
    SECTION("a link of theirs") {
        REQUIRE(::symlink(user.runtime().c_str(), user.run_dir_in_tmp().c_str()) == 0);
        user.start();
        CHECK(user.await_end() == 1);
        CHECK(fs::is_empty(user.runtime()));
    }
    SECTION("a folder of this user's into which others could write") {
        make_folder(user.run_dir_in_tmp(), user.uid(), 0777);
        user.start();
        CHECK(user.await_end() == 1);
        CHECK_THAT(user.log(), Contains("lets others write to it"));
    }
    CHECK_THAT(user.log(),
               Contains("XDG_RUNTIME_DIR") && Contains("run_dir") && Contains("control.endpoint"));
    CHECK(user.shm_dirs().empty());
}

TEST_CASE("first run: daemon and tools work although another user has created the folder in /dev/shm") {
    if (!shm::can_change_user()) return;
    User user;
    make_folder(user.usual_shm_dir(), shm::kNobody);
    user.start();
    INFO(user.log());
    REQUIRE(user.becomes_ready());
    CHECK(user.run("croupier", "status").status == 0);
    SECTION("the name stays taken") {}
    SECTION("the name becomes free while the daemon runs") {
        fs::remove(user.usual_shm_dir());
        CHECK(user.run("croupier", "status").status == 0);
        make_folder(user.usual_shm_dir(), shm::kNobody);
    }
    CHECK(user.run("croupier-sim", kShortSim).status == 0);
    CHECK(user.stop() == 0);
    CHECK(user.shm_dirs() == std::vector<std::string>{user.usual_shm_dir()});
}

TEST_CASE("first run: daemons of two users start, also if the port of the page is taken") {
    if (!shm::can_change_user()) return;
    // The port is taken by this test once a daemon of another test has left it, or by a daemon of this host,
    // which keeps it.
    const shm::FileDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int reuse = 1;
    REQUIRE(::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse)) == 0);
    const sockaddr_in address = loopback(9464);
    const auto taken = [&] {
        return ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    };
    if (eventually(taken)) REQUIRE(::listen(listener.get(), 1) == 0);
    User one;
    User other;
    one.start();
    other.start();
    for (User* user : {&one, &other}) {
        INFO(user->log());
        REQUIRE(user->becomes_ready());
        CHECK_THAT(user->log(), Contains("another program listens at 127.0.0.1:9464") &&
                                    Contains("page at http://127.0.0.1:") &&
                                    !Contains("page at http://127.0.0.1:9464/"));
    }
    for (User* user : {&one, &other}) CHECK(user->stop() == 0);
}

TEST_CASE("first run: a second daemon of a user is refused because the instance exists") {
    if (!shm::can_change_user()) return;
    User user;
    user.start();
    REQUIRE(user.becomes_ready());
    const Ended second = user.run("croupierd", "");
    CHECK(second.status == 1);
    CHECK_THAT(second.output, Contains("instance default already runs with pid"));
    CHECK(user.run("croupier", "status").status == 0);
    CHECK(user.stop() == 0);
}

TEST_CASE("first run: after a kill the next daemon takes over, and tools can read the files meanwhile") {
    if (!shm::can_change_user()) return;
    User user;
    user.start();
    REQUIRE(user.becomes_ready());
    user.kill_daemon();
    REQUIRE(eventually([&] { return user.run("croupier", "status").status == 3; }));
    user.start();
    INFO(user.log());
    REQUIRE(user.becomes_ready());
    CHECK(user.run("croupier", "status").status == 0);
    CHECK(user.stop() == 0);
    CHECK(user.shm_dirs().empty());
}

TEST_CASE(
    "first run: paths that a user's file leaves out are the user's own, and --print-config shows them") {
    if (!shm::can_change_user()) return;
    User user;
    const std::string file = user.runtime() + "/croupierd.yaml";
    std::ofstream(file) << "samplers: {count: 1}\n";
    fs::permissions(file, fs::perms(0644));
    for (const std::string& arguments : {std::string("--print-config"), "--print-config --config " + file}) {
        const Ended printed = user.run("croupierd", arguments);
        CHECK(printed.status == 0);
        CHECK_THAT(printed.output, Contains("run_dir: \"" + user.run_dir() + "\"") &&
                                       Contains("dir: \"" + user.usual_shm_dir() + "\"") &&
                                       Contains(endpoint_in(user.run_dir())));
    }
}

TEST_CASE("first run: croupierd of root uses the host's paths without a file") {
    if (::geteuid() != 0 || fs::exists("/etc/croupier/croupierd.yaml")) {
        WARN("skipped: this is not root, or the host has a configuration");
        return;
    }
    const Sandbox sandbox;
    const Ended printed = run_croupierd(sandbox, {"--print-config"});
    CHECK(printed.status == 0);
    CHECK_THAT(printed.output, Contains("run_dir: \"/run/croupier\"") &&
                                   Contains("dir: \"/dev/shm/croupier\"") &&
                                   Contains("\"ipc:///run/croupier/control.sock\""));
    const Ended checked = run_croupierd(sandbox, {"--check-config"});
    CHECK(checked.status == 0);
    CHECK_THAT(checked.output, Contains("built-in defaults are valid"));
}

TEST_CASE("first run: the error for a missing file says how to run without one") {
    const Sandbox sandbox;
    const Ended ended = run_croupierd(sandbox, {"--config", sandbox.directory() + "/none.yaml"});
    CHECK(ended.status == 2);
    CHECK_THAT(ended.output, Contains("none.yaml: the file does not exist") &&
                                 Contains("built-in defaults") && Contains("--print-config"));
    CHECK(run_croupierd(sandbox, {"--config", ""}).status != 0);
}

TEST_CASE("first run: an engine without an endpoint uses its user's daemon, or that of the host") {
    if (!shm::can_change_user()) return;
    const User user;
    // Folders with the names of the host's, in a namespace of this test.
    auto apart = ChildProcess::start([&] {
        if (::unshare(CLONE_NEWNS) != 0) return kCannotUnshare;
        if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return kCannotUnshare;
        for (const char* folder : {"/run", "/dev/shm"}) {
            if (::mount("tmpfs", folder, "tmpfs", 0, "mode=1777") != 0) return kCannotUnshare;
        }
        try {
            return step_of_defaults(user);
        } catch (const std::exception&) {
            return 99;
        }
    });
    const int ended = apart.wait();
    if (ended == kCannotUnshare) {
        WARN("skipped: no mount namespace can be made here");
    } else {
        CHECK(ended == 0);
    }
}

TEST_CASE("first run: an engine without an endpoint never uses a daemon of another user") {
    if (!shm::can_change_user() || fs::exists("/run/croupier")) return;
    User user;
    user.without_runtime();
    const auto goes_to_the_host = [&] {
        return shm::start_as(user.uid(), [] {
                   ::unsetenv("XDG_RUNTIME_DIR");
                   return proto::serving_paths().is_host ? 0 : 1;
               }).wait() == 0;
    };
    // Any user could create it while the engine waits for its daemon.
    CHECK(goes_to_the_host());
    make_folder(user.run_dir_in_tmp(), shm::kNobody, 0777);
    CHECK(goes_to_the_host());
    fs::remove_all(user.run_dir_in_tmp());
    make_folder(user.run_dir_in_tmp(), user.uid(), 0700);
    CHECK_FALSE(goes_to_the_host());
}

TEST_CASE("first run: the error for a path without permission names the key to set") {
    if (!shm::can_change_user()) return;
    User user;
    const std::string file = user.runtime() + "/croupierd.yaml";
    const auto refusal = [&](const std::string& text) {
        std::ofstream(file) << text;
        fs::permissions(file, fs::perms(0644));
        const Ended ended = user.run("croupierd", "--config " + file);
        CHECK(ended.status == 1);
        CHECK_THAT(ended.output, !Contains("shm.mode"));
        return ended.output;
    };
    CHECK_THAT(refusal("run_dir: /etc/croupier-none\n"),
               Contains("run_dir /etc/croupier-none: permission denied; set run_dir to"));
    CHECK_THAT(refusal("shm: {dir: /etc/croupier-none}\n"),
               Contains("shm.dir /etc/croupier-none: permission denied; set shm.dir to"));
    CHECK_THAT(refusal("control: {endpoint: \"ipc:///etc/croupier-none.sock\"}\n"),
               Contains("cannot bind") && Contains("set control.endpoint to"));
    CHECK(user.shm_dirs().empty());
    CHECK_FALSE(fs::exists(user.run_dir()));
}

TEST_CASE("first run: the log is short on a terminal and has all fields elsewhere") {
    if (!shm::can_change_user() || std::system("script --version >/dev/null 2>&1") != 0) {
        WARN("skipped: script(1) is not here");
        return;
    }
    const Sandbox sandbox;
    sandbox.write_config("{count: 1}", "");
    const std::string seen = sandbox.directory() + "/seen";
    const std::string command = std::string("exec " CROUPIERD_PATH " --config ") + sandbox.config_path();
    auto typed = ChildProcess::execute({"/usr/bin/script", "-qefc", command, seen},
                                       sandbox.directory() + "/none", SIGKILL);
    const auto text = [&] { return text_of(seen).value_or(""); };
    REQUIRE(eventually([&] { return text().find("ready: ") != std::string::npos; }));
    CHECK_THAT(text(), Contains("instance is " + sandbox.instance()) && Contains("ready: 1 sampler, ") &&
                           !Contains("event=") && !Contains("message="));
    const pid_t daemon = std::stoi(text_of(sandbox.directory() + "/" + sandbox.instance() + ".lock").value());
    ::kill(daemon, SIGTERM);
    CHECK(typed.wait() == 0);
    CHECK_THAT(text(), Contains(" stopped"));
}

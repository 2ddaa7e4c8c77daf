// Hosts that are broken on purpose, by the kernel's own means: the doctor names each, and exits as it should.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include "proto/plane.h"
#include "shm/file.h"
#include "testing/daemon_process.h"
#include "testing/small_engine.h"
#include "tests/daemon/loopback.h"
#include "tests/shm/second_user.h"
#include "tests/tools/doctor_asker.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

namespace fs = std::filesystem;

bool can_mount() {
    if (std::system("unshare --mount mount -t tmpfs tmpfs /dev/shm 2>/dev/null") == 0) return true;
    WARN("skipped: no mount namespace can be made here");
    return false;
}

// Connections that nobody takes, until there is no room for another.
std::vector<shm::FileDescriptor> fill_backlog(const std::string& path) {
    std::vector<shm::FileDescriptor> waiting;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    while (true) {
        shm::FileDescriptor client(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        if (::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) break;
        waiting.push_back(std::move(client));
    }
    REQUIRE(errno == EAGAIN);
    return waiting;
}

}  // namespace

TEST_CASE("doctor: a daemon that serves is found fit, and every check is told once") {
    const DaemonProcess daemon(kOneSampler);
    REQUIRE(daemon.await_ready());
    const Workplace place;
    const auto told = ask_doctor(place, config_of(daemon) + kNotThisMachine);
    INFO(told.answer.dump(2));
    CHECK(told.status == 0);
    CHECK(told.answer["schema"] == 1);
    CHECK(told.answer["verdict"] == "fine");
    CHECK(told.level("daemon.answers") == "fine");
    CHECK(told.finding("daemon.answers")["facts"]["pid"] == daemon.pid());
    CHECK(told.level("daemon.samplers") == "fine");
    CHECK(told.level("daemon.version") == "fine");
    CHECK(told.level("user.daemon") == "fine");
    CHECK(told.level("files.directory") == "fine");
    std::set<std::string> checks;
    for (const auto& finding : told.answer["findings"]) {
        checks.insert(finding["check"].get<std::string>());
        for (const char* key : {"check", "level", "what", "remedy", "facts"}) CHECK(finding.contains(key));
        const std::string level = finding["level"];
        if (level == "broken" || level == "slower") CHECK_FALSE(finding["remedy"].get<std::string>().empty());
    }
    // Others rely on these names: docs/watching.md has them all.
    CHECK(checks ==
          std::set<std::string>{"config.file",     "cpu.instructions",  "cpu.cores",      "cpu.cpuset",
                                "cpu.quota",       "cpu.pinning",       "cpu.speed",      "numa.samplers",
                                "numa.gpus",       "pcie.links",        "memory.mount",   "memory.space",
                                "files.directory", "files.segments",    "files.sockets",  "memory.limit",
                                "memory.locked",   "memory.huge_pages", "user.daemon",    "user.engine",
                                "daemon.answers",  "daemon.samplers",   "daemon.version", "daemon.metrics",
                                "engine.library",  "engine.plugin",     "files.logout",   "network.peer"});
    CHECK(told.answer["findings"].size() == checks.size());
}

TEST_CASE("doctor: a shared memory without room for a session is named, with its size") {
    if (!can_mount()) return;
    const Sandbox sandbox;
    sandbox.write_config(kOneSampler, "");
    const Workplace place;
    const auto told = ask_doctor(place, config_of(sandbox),
                                 "unshare --mount " + after("mount -t tmpfs -o size=8m tmpfs /dev/shm"));
    CHECK(told.status == 2);
    CHECK(told.level("memory.space") == "broken");
    CHECK_THAT(told.what("memory.space"), Contains("8 MiB"));
    CHECK_THAT(told.remedy("memory.space"), Contains("remount,size="));
    CHECK(told.finding("memory.space")["facts"]["total_bytes"] == 8 << 20U);
    // A session of another shape fits.
    const auto small = ask_doctor(place, config_of(sandbox) + " --vocab 1000 --batch 1",
                                  "unshare --mount " + after("mount -t tmpfs -o size=8m tmpfs /dev/shm"));
    CHECK(small.level("memory.space") == "fine");
}

TEST_CASE("doctor: the room that many samplers' plane takes is asked for before a session's") {
    if (!can_mount()) return;
    const Sandbox sandbox;
    sandbox.write_config("{count: 64}", "");
    const Workplace place;
    const std::string small = " --vocab 1000 --batch 1";
    const auto told = ask_doctor(place, config_of(sandbox) + small,
                                 "unshare --mount " + after("mount -t tmpfs -o size=5m tmpfs /dev/shm"));
    CHECK(told.level("memory.space") == "broken");
    CHECK_THAT(told.what("memory.space"), Contains("64 samplers"));
    CHECK_THAT(told.remedy("memory.space"), Contains("samplers.count"));
    CHECK(told.finding("memory.space")["facts"]["plane_bytes"] == proto::plane_bytes(64, 1));
    const auto wide = ask_doctor(place, config_of(sandbox) + small,
                                 "unshare --mount " + after("mount -t tmpfs -o size=64m tmpfs /dev/shm"));
    CHECK(wide.level("memory.space") == "fine");
}

TEST_CASE("doctor: a shared memory that cannot be written, or is a disk, is named") {
    if (!can_mount()) return;
    const Sandbox sandbox;
    sandbox.write_config(kOneSampler, "");
    const Workplace place;
    const auto told = ask_doctor(place, config_of(sandbox),
                                 "unshare --mount " + after("mount -t tmpfs -o ro tmpfs /dev/shm"));
    CHECK(told.status == 2);
    CHECK(told.level("memory.mount") == "broken");
    CHECK_THAT(told.what("memory.mount"), Contains("read-only"));
}

TEST_CASE("doctor: one core for all is slower, and is not called broken") {
    const Sandbox sandbox;
    sandbox.write_config(kOneSampler, "");
    const Workplace place;
    const auto told = ask_doctor(place, config_of(sandbox) + " --skip daemon --skip memory --skip engine",
                                 "taskset -c " + std::to_string(::sched_getcpu()) + " ");
    INFO(told.answer.dump(2));
    CHECK(told.status == 1);
    CHECK(told.level("cpu.cores") == "slower");
    CHECK(told.finding("cpu.cores")["facts"]["usable"] == 1);
}

TEST_CASE("doctor: more samplers than the cpuset has cores are named, with the count that fits") {
    const Sandbox sandbox;
    sandbox.write_config("{count: 256}", "");
    const Workplace place;
    const auto told = ask_doctor(place, config_of(sandbox) + " --skip daemon --skip memory --skip engine");
    const auto usable = told.finding("cpu.cores")["facts"]["usable"].get<int>();
    if (usable < 2 || usable > 255) return;
    CHECK(told.status == 1);
    CHECK(told.level("cpu.cpuset") == "slower");
    CHECK_THAT(told.remedy("cpu.cpuset"), Contains("samplers.count to " + std::to_string(usable - 1)));
}

TEST_CASE("doctor: a library of another build is named by what its file says, without being loaded") {
    const Sandbox sandbox;
    sandbox.write_config(kOneSampler, "");
    const Workplace place;
    const auto sound = ask_doctor(place, config_of(sandbox) + " --library " CROUPIER_LIBRARY);
    CHECK(sound.level("engine.library") == "fine");
    std::ifstream file(CROUPIER_LIBRARY, std::ios::binary);
    std::string bytes(std::istreambuf_iterator<char>(file), {});
    const auto at = bytes.find("; segment ");
    REQUIRE(at != std::string::npos);
    bytes.replace(at, 12, "; segment 09");
    place.write("libcroupier.so.1", bytes);
    const auto old = ask_doctor(place, config_of(sandbox) + " --library libcroupier.so.1");
    CHECK(old.status == 2);
    CHECK(old.level("engine.library") == "broken");
    CHECK_THAT(old.what("engine.library"), Contains("old library") && Contains("segment 09"));
    place.write("silent.so", "a library from before it said anything");
    CHECK(ask_doctor(place, config_of(sandbox) + " --library silent.so").level("engine.library") == "broken");
    CHECK_THAT(ask_doctor(place, config_of(sandbox) + " --library absent.so").what("engine.library"),
               Contains("is not there"));
}

TEST_CASE("doctor: a daemon that is not started, is stopped or has died is told apart") {
    DaemonProcess daemon(kOneSampler);
    const Workplace place;
    const std::string question = config_of(daemon) + kNotThisMachine;
    REQUIRE(daemon.await_ready());
    SECTION("stopped by a signal") {
        daemon.signal(SIGSTOP);
        REQUIRE(eventually([&] { return is_stopped(daemon.pid()); }));
        const auto told = ask_doctor(place, question + " --patience 400");
        daemon.signal(SIGCONT);
        CHECK(told.status == 2);
        CHECK(told.level("daemon.answers") == "broken");
        CHECK_THAT(told.what("daemon.answers"), Contains("stopped by a signal"));
        CHECK_THAT(told.remedy("daemon.answers"), Contains("kill -CONT " + std::to_string(daemon.pid())));
    }
    SECTION("stopped, and so many wait for it that the kernel takes no more") {
        daemon.signal(SIGSTOP);
        REQUIRE(eventually([&] { return is_stopped(daemon.pid()); }));
        const auto waiting = fill_backlog(daemon.directory() + "/control.sock");
        const auto told = ask_doctor(place, question + " --patience 400");
        daemon.signal(SIGCONT);
        CHECK_THAT(told.what("daemon.answers"), Contains("stopped by a signal"));
        CHECK_THAT(told.remedy("daemon.answers"), Contains("kill -CONT " + std::to_string(daemon.pid())));
    }
    SECTION("ended") {
        REQUIRE(daemon.terminate() == 0);
        const auto told = ask_doctor(place, question);
        CHECK(told.status == 0);
        CHECK(told.answer["verdict"] == "fine");
        CHECK(told.level("daemon.answers") == "skipped");
        CHECK(told.finding("daemon.answers")["facts"]["state"] == "absent");
        CHECK_THAT(told.what("daemon.answers"), Contains("no daemon runs"));
        CHECK(told.level("daemon.version") == "skipped");
        CHECK_THAT(place.run("doctor --python none " + question).output,
                   Contains("This host is suitable for Croupier; no daemon is running"));
    }
    SECTION("dead, with a session's memory left") {
        SmallEngine engine(daemon.endpoint(), "engine");
        CHECK(ask_doctor(place, question).finding("daemon.answers")["facts"]["sessions"] == 1);
        engine.session().close();
        { const SmallEngine left(daemon.endpoint(), "left"); }
        daemon.kill_now();
        const auto told = ask_doctor(place, question + " --skip daemon");
        CHECK(told.level("files.segments") == "slower");
        CHECK_THAT(told.remedy("files.segments"), Contains("croupier cleanup"));
        CHECK(told.status == 1);
    }
}

TEST_CASE("doctor: who listens in the daemon's place and says nothing is named") {
    const Sandbox sandbox;
    sandbox.write_config(kOneSampler, "");
    const shm::FileDescriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = sandbox.directory() + "/control.sock";
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    REQUIRE(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
    REQUIRE(::listen(listener.get(), 4) == 0);
    const Workplace place;
    const auto told = ask_doctor(place, config_of(sandbox) + " --patience 400");
    CHECK(told.status == 2);
    CHECK_THAT(told.what("daemon.answers"),
               Contains("test_tools") && Contains(std::to_string(::getpid())) && Contains("does not answer"));
}

TEST_CASE("doctor: squatted names are told, each with whose they are") {
    const Sandbox sandbox;
    sandbox.write_config(kOneSampler, "");
    const Workplace place;
    REQUIRE(::mkdir(sandbox.shm_directory().c_str(), 0711) == 0);
    const std::string plane = sandbox.shm_directory() + "/croupier-" + sandbox.instance() + ".plane";
    SECTION("a FIFO where the plane goes") {
        REQUIRE(::mkfifo(plane.c_str(), 0600) == 0);
        const auto told = ask_doctor(place, config_of(sandbox));
        CHECK(told.status == 2);
        CHECK(told.level("files.segments") == "broken");
        CHECK_THAT(told.what("files.segments"), Contains("squatted") && Contains(plane));
    }
    SECTION("a link where the lock goes") {
        fs::create_symlink("/etc/passwd", sandbox.directory() + "/" + sandbox.instance() + ".lock");
        const auto told = ask_doctor(place, config_of(sandbox));
        CHECK(told.level("files.sockets") == "broken");
        CHECK_THAT(told.what("files.sockets"), Contains("squatted") && Contains("is a link"));
    }
    SECTION("a file where the socket goes") {
        std::ofstream(sandbox.directory() + "/control.sock") << "mine";
        CHECK_THAT(ask_doctor(place, config_of(sandbox)).what("files.sockets"),
                   Contains("control.sock is not a socket"));
    }
    SECTION("another user's folder and file") {
        if (!shm::can_change_user()) return;
        std::ofstream(plane) << "mine";
        REQUIRE(::chown(plane.c_str(), shm::kNobody, shm::kNobody) == 0);
        CHECK_THAT(ask_doctor(place, config_of(sandbox)).what("files.segments"), Contains("uid 65534"));
        REQUIRE(::chown(sandbox.shm_directory().c_str(), shm::kNobody, shm::kNobody) == 0);
        const auto told = ask_doctor(place, config_of(sandbox) + " --user root");
        CHECK(told.level("files.directory") == "broken");
        CHECK_THAT(told.what("files.directory"), Contains("uid 65534"));
    }
    SECTION("another user's run_dir, and one that all may write to") {
        fs::permissions(sandbox.directory(), fs::perms(0777));
        const auto open = ask_doctor(place, config_of(sandbox));
        CHECK(open.level("files.sockets") == "broken");
        CHECK_THAT(open.what("files.sockets"), Contains("has mode 0777: others may write to it"));
        if (!shm::can_change_user()) return;
        REQUIRE(::chown(sandbox.directory().c_str(), shm::kNobody, shm::kNobody) == 0);
        const auto squatted = ask_doctor(place, config_of(sandbox) + " --user root");
        CHECK(squatted.level("files.sockets") == "broken");
        CHECK_THAT(squatted.what("files.sockets"), Contains("run_dir") && Contains("uid 65534"));
    }
    SECTION("a folder that all may write to") {
        fs::permissions(sandbox.shm_directory(), fs::perms(0777));
        const auto told = ask_doctor(place, config_of(sandbox));
        CHECK_THAT(told.what("files.directory"), Contains("mode 0777"));
        CHECK_THAT(told.remedy("files.directory"), Contains("chmod 0711"));
    }
}

TEST_CASE("doctor: a daemon whose files were removed serves on, and has its own port") {
    const Workplace place;
    const DaemonProcess daemon(kOneSampler,
                               "metrics: {listen: \"127.0.0.1:" + std::to_string(free_port()) + "\"}");
    fs::remove_all(daemon.shm_directory());
    const auto told = ask_doctor(place, config_of(daemon) + kNotThisMachine);
    CHECK(told.status == 2);
    CHECK(told.level("daemon.answers") == "broken");
    CHECK_THAT(told.what("daemon.answers"), Contains("a daemon serves at " + daemon.endpoint()) &&
                                                Contains(std::to_string(daemon.pid())) &&
                                                Contains("were removed"));
    CHECK_THAT(told.remedy("daemon.answers"), Contains("enable-linger"));
    CHECK(told.level("daemon.metrics") == "skipped");
}

TEST_CASE(
    "doctor: a metrics.listen that somebody has, or that is not here, is named before the daemon's start") {
    const Sandbox sandbox;
    const Workplace place;
    const auto asked = [&](const std::string& listen) {
        sandbox.write_config(kOneSampler, "metrics: {listen: \"" + listen + "\"}");
        return ask_doctor(place, config_of(sandbox) + kNotThisMachine);
    };
    std::string taken = "127.0.0.1:";
    {
        const shm::FileDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof(address);
        auto* plain = reinterpret_cast<sockaddr*>(&address);
        REQUIRE(::bind(listener.get(), plain, length) == 0);
        REQUIRE(::listen(listener.get(), 1) == 0);
        REQUIRE(::getsockname(listener.get(), plain, &length) == 0);
        taken += std::to_string(ntohs(address.sin_port));
        const auto told = asked(taken);
        CHECK(told.status == 2);
        CHECK(told.level("daemon.metrics") == "broken");
        CHECK_THAT(told.what("daemon.metrics"), Contains(taken) && Contains("metrics.listen"));
        CHECK_THAT(told.remedy("daemon.metrics"), Contains("ss -ltnp"));
    }
    CHECK(asked(taken).level("daemon.metrics") == "fine");
    CHECK(asked("[::1]:0").level("daemon.metrics") != "skipped");
    CHECK(asked("192.0.2.7:9464").level("daemon.metrics") == "broken");
    CHECK(asked("off").level("daemon.metrics") == "fine");
    // The port of one that lives is its own.
    const DaemonProcess daemon(kOneSampler, "metrics: {listen: \"" + taken + "\"}");
    CHECK(ask_doctor(place, config_of(daemon) + kNotThisMachine).level("daemon.metrics") != "broken");
}

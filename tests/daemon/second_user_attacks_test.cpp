// A second user of the host and what the first one's daemon has that others can see or name beforehand: the
// bells, the arguments of its processes, the names of its folders.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "testing/daemon_process.h"
#include "testing/file_text.h"
#include "testing/small_engine.h"
#include "tests/daemon/open_house.h"
#include "tests/daemon/stand_in_process.h"
#include "tests/shm/second_user.h"
#include "tests/tools/fresh_user.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

namespace fs = std::filesystem;

std::string proc(pid_t pid, const char* file) {
    return "/proc/" + std::to_string(pid) + "/" + file;
}

// Those in `folder` that the process has mapped or open.
std::set<std::string> files_of(pid_t pid, const std::string& folder) {
    std::set<std::string> found;
    std::istringstream maps(text_of(proc(pid, "maps")).value_or(""));
    for (std::string line; std::getline(maps, line);) {
        const auto path = line.find(folder + "/");
        if (path != std::string::npos) found.insert(line.substr(path));
    }
    for (const auto& open : fs::directory_iterator(proc(pid, "fd"))) {
        std::error_code gone;
        const std::string path = fs::read_symlink(open.path(), gone).string();
        if (path.starts_with(folder + "/")) found.insert(path);
    }
    return found;
}

std::vector<std::string> common(const std::set<std::string>& one, const std::set<std::string>& other) {
    std::vector<std::string> both;
    std::set_intersection(one.begin(), one.end(), other.begin(), other.end(), std::back_inserter(both));
    return both;
}

// An engine of the second user that has decided a step, and stopped itself before `then`.
template <typename Then>
ChildProcess start_second_engine(const DaemonProcess& daemon, Then&& then) {
    auto engine = shm::start_as_nobody([&daemon, then] {
        SmallEngine own(daemon.endpoint(), "second");
        own.admit(4);
        own.step();
        ::raise(SIGSTOP);
        then(own);
        return 0;
    });
    REQUIRE(engine.wait_until_stopped());
    return engine;
}

// Who sleeps on it is forgotten, always.
[[noreturn]] void silence_bell(const SmallEngine& own) {
    const auto segment = shm::Segment::attach(own.segment_path(), shm::Access::read_write).value();
    proto::Bell& bell = segment.header().bell;
    while (true) {
        for (auto& sleepers : bell.sleepers) sleepers.store(0, std::memory_order_relaxed);
    }
}

// So many of the attempts on the file succeeded, by a user who knows its path.
int deeds_on(const std::string& path) {
    int done = 0;
    for (const int how : {O_RDONLY, O_WRONLY, O_RDWR, O_WRONLY | O_TRUNC})
        done += ::open(path.c_str(), how | O_NONBLOCK | O_CLOEXEC) >= 0;
    done += ::truncate(path.c_str(), 0) == 0;
    done += ::chmod(path.c_str(), 0666) == 0;
    done += ::link(path.c_str(), ("/dev/shm/link-" + std::to_string(::getpid())).c_str()) == 0;
    done += ::rename(path.c_str(), (path + ".moved").c_str()) == 0;
    done += ::unlink(path.c_str()) == 0;
    return done;
}

std::vector<std::string> files_in(const std::string& folder) {
    std::vector<std::string> found;
    for (const auto& file : fs::directory_iterator(folder)) found.push_back(file.path());
    return found;
}

std::vector<pid_t> with_children(pid_t parent) {
    std::vector<pid_t> found = {parent};
    std::ifstream children(proc(parent, "task/") + std::to_string(parent) + "/children");
    for (pid_t child = 0; children >> child;) found.push_back(child);
    return found;
}

// What the reader may see of the process in /proc.
std::string seen_of(pid_t pid) {
    std::string seen;
    for (const char* file : {"cmdline", "comm", "environ", "maps", "smaps", "numa_maps", "stat", "status"})
        seen += text_of(proc(pid, file)).value_or("");
    std::error_code refused;
    for (const char* link : {"exe", "cwd"}) seen += fs::read_symlink(proc(pid, link), refused).string();
    for (const auto& open : fs::directory_iterator(proc(pid, "fd"), refused))
        seen += fs::read_symlink(open.path(), refused).string();
    return seen;
}

enum Leak { kNone, kLeak, kNothingSeen };

int seen_leak(pid_t pid, const DaemonProcess& daemon, const std::string& segment_path) {
    const std::string seen = seen_of(pid);
    if (seen.find("croupierd") == std::string::npos) return kNothingSeen;
    const std::string name = fs::path(segment_path).stem().string();
    for (const std::string& secret : {daemon.shm_directory(), name.substr(name.rfind('-') + 1)})
        if (seen.find(secret) != std::string::npos) return kLeak;
    return kNone;
}

// A folder, file or link at a path that another user's daemon will want.
int squat(const std::string& path, const std::string& how) {
    if (how == "link") return ::symlink("/dev/shm", path.c_str());
    if (how == "dangling link") return ::symlink((path + "-target").c_str(), path.c_str());
    if (how == "file") return ::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR, 0666) >= 0 ? 0 : 1;
    ::umask(0);
    return ::mkdir(path.c_str(), how == "open folder" ? 0777 : 0700);
}

}  // namespace

TEST_CASE("a second user shares no file with the first, and silences no bell but his own") {
    if (!shm::can_change_user()) return;
    DaemonProcess daemon("{count: 2, wait: sleep}", kForAllUsers);
    let_all_users_in(daemon);
    auto second = start_second_engine(daemon, silence_bell);
    SmallEngine first(daemon.endpoint(), "first");
    first.admit(4);
    first.step();
    const auto of_first = files_of(::getpid(), daemon.shm_directory());
    const auto of_second = files_of(second.pid(), daemon.shm_directory());
    REQUIRE(of_first.size() == 1);
    REQUIRE(of_second.size() == 1);
    CHECK(common(of_first, of_second).empty());
    second.send(SIGCONT);
    const auto segment = shm::Segment::attach(first.segment_path(), shm::Access::read_only).value();
    for (int round = 0; round < 10; ++round) {
        REQUIRE(eventually([&] { return segment.header().bell.sleepers[0].load() == 0b11; }));
        first.step();
    }
    CHECK_FALSE(second.poll());
    CHECK(daemon.sampler_restarts() == 0);
}

TEST_CASE("a second user who knows the paths of a daemon's files can open, cut, move or remove none") {
    if (!shm::can_change_user()) return;
    DaemonProcess daemon;
    SmallEngine first(daemon.endpoint(), "first");
    first.admit(4);
    first.step();
    const auto files = files_in(daemon.shm_directory());
    // The plane, the session and its record.
    REQUIRE(files.size() >= 3);
    for (const auto& file : files) {
        INFO(file);
        CHECK(shm::as_nobody([&] { return deeds_on(file); }) == 0);
    }
    first.steps(2);
}

TEST_CASE("what a second user reads of the processes of a daemon and a stand-in names no segment") {
    if (!shm::can_change_user()) return;
    DaemonProcess daemon("{count: 2}", kForAllUsers);
    let_all_users_in(daemon);
    SmallEngine first(daemon.endpoint(), "first");
    first.admit(4);
    first.step();
    const auto check_processes_of = [&](pid_t parent) {
        REQUIRE(eventually([&] { return with_children(parent).size() == 3; }));
        for (const pid_t pid : with_children(parent)) {
            INFO(text_of(proc(pid, "cmdline")).value_or(""));
            CHECK(shm::as_nobody([&] { return seen_leak(pid, daemon, first.segment_path()); }) == 0);
        }
    };
    const ChildProcess beside = start_stand_in(first.segment_path(), daemon.directory() + "/stand-in.log");
    // Its successor has the session from the supervisor, not from its start.
    ::kill(daemon.sampler_pid(0), SIGKILL);
    REQUIRE(eventually([&] { return daemon.sampler_restarts() == 1; }));
    check_processes_of(daemon.pid());
    daemon.kill_now();
    check_processes_of(beside.pid());
    first.step();
}

TEST_CASE("a second user's folder, file or link is refused by name as a daemon's shm.dir") {
    if (!shm::can_change_user()) return;
    const std::string how = GENERATE("open folder", "closed folder", "file", "link", "dangling link");
    INFO(how);
    const Sandbox sandbox;
    const std::string squatted = sandbox.shm_directory();
    REQUIRE(shm::as_nobody([&] { return squat(squatted, how); }) == 0);
    sandbox.write_config(kTwoSamplers, "");
    const Ended ended = run_croupierd(sandbox, {"--config", sandbox.config_path()});
    CHECK(ended.status == 1);
    CHECK_THAT(ended.output, Contains("cannot start") && Contains("shm.dir " + squatted));
    struct stat status {};
    REQUIRE(::lstat(squatted.c_str(), &status) == 0);
    CHECK(status.st_uid == shm::kNobody);
    CHECK_FALSE(fs::exists(squatted + "-target"));
    CHECK(((how != "open folder" && how != "closed folder") || fs::is_empty(squatted)));
    fs::remove(squatted);
}

TEST_CASE("a second user who was first at a daemon's usual folders finds nothing in them") {
    if (!shm::can_change_user()) return;
    User first;
    REQUIRE(shm::as_nobody([&] { return squat(first.usual_shm_dir(), "open folder"); }) == 0);
    std::set<std::string> names;
    for (int start = 0; start < 3; ++start) {
        first.start();
        INFO(first.log());
        REQUIRE(first.becomes_ready());
        const auto folders = first.shm_dirs();
        REQUIRE(folders.size() == 2);
        names.insert(folders.begin(), folders.end());
        CHECK(fs::is_empty(first.usual_shm_dir()));
        CHECK(first.stop() == 0);
    }
    // The random name cannot be taken beforehand.
    CHECK(names.size() == 4);
    first.without_runtime();
    REQUIRE(shm::as_nobody([&] { return squat(first.run_dir_in_tmp(), "open folder"); }) == 0);
    first.start();
    CHECK(first.await_end() == 1);
    CHECK_THAT(first.log(), Contains("run_dir " + first.run_dir_in_tmp() + " belongs to uid 65534"));
    CHECK(fs::is_empty(first.run_dir_in_tmp()));
}

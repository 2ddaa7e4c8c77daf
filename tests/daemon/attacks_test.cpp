// The list of attacks in docs/security.md, as a second user of the host: none succeeds, and a victim's steps
// go on. Those that need more than one process or daemon are in second_user_attacks_test.cpp, those that go
// on without end in second_user_floods_test.cpp.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <functional>

#include "testing/daemon_process.h"
#include "testing/file_text.h"
#include "testing/small_engine.h"
#include "tests/daemon/control_peer.h"
#include "tests/daemon/idle_peer.h"
#include "tests/daemon/limited_croupierd.h"
#include "tests/daemon/open_house.h"
#include "tests/daemon/stand_in_process.h"
#include "tests/shm/second_user.h"

using namespace croupier;
using namespace croupier::testing;
using flatbuffers::FlatBufferBuilder;

namespace {

// What the attacker knows beforehand: more than it could find out.
struct Target {
    const DaemonProcess& daemon;
    std::string victim_path;
    std::uint64_t victim_id;

    std::string path(const std::string& end) const {
        return daemon.shm_directory() + "/croupier-" + daemon.instance() + end;
    }
};

struct Attack {
    const char* name;
    std::function<bool(const Target&)> succeeds;
};

template <typename Make>
bool answered(const std::string& endpoint, Make&& make) {
    ControlPeer peer(endpoint);
    FlatBufferBuilder builder;
    const auto body = make(builder);
    wire::finish(builder, 1, body);
    peer.send(builder);
    const wire::Message* answer = peer.receive();
    return answer != nullptr && answer->body_as_Refusal() == nullptr;
}

bool opens(const Target& target, bool resume, bool takeover) {
    EngineShape shape;
    shape.resume = resume;
    shape.takeover = takeover;
    return failure_of([&] { SmallEngine(target.daemon.endpoint(), "victim", shape); }).empty();
}

bool can_open(const std::string& path, int how) {
    return ::open(path.c_str(), how | O_NONBLOCK, 0666) >= 0;
}

// In a session of its own: whether it harms others is seen by the victim's steps and by the daemon's life.
template <typename Deed>
bool in_own_session(const Target& target, Deed&& deed) {
    SmallEngine own(target.daemon.endpoint(), "own");
    own.admit(4);
    own.step();
    own.submit();
    auto segment = shm::Segment::attach(own.segment_path(), shm::Access::read_write).value();
    deed(own.segment_path(), segment);
    // Not through destructors: they would read what was cut off.
    ::_exit(0);
}

const std::vector<Attack>& attacks() {
    static const std::vector<Attack> all = {
        {"list the daemon's directory",
         [](const Target& target) {
             std::error_code refused;
             const std::filesystem::directory_iterator files(target.daemon.shm_directory(), refused);
             return !refused && files != std::filesystem::directory_iterator();
         }},
        {"put a FIFO where a segment would lie",
         [](const Target& target) { return ::mkfifo(target.path("-1.seg").c_str(), 0666) == 0; }},
        {"put a link where a segment would lie",
         [](const Target& target) { return ::symlink("/etc/passwd", target.path("-2.seg").c_str()) == 0; }},
        {"put a segment of his own beside the others",
         [](const Target& target) { return can_open(target.path("-3.seg"), O_CREAT | O_EXCL | O_RDWR); }},
        {"squat the name of a plane",
         [](const Target& target) {
             return can_open(target.daemon.shm_directory() + "/croupier-next.plane",
                             O_CREAT | O_EXCL | O_RDWR);
         }},
        {"remove a file of the daemon's",
         [](const Target& target) { return ::unlink(target.path(".plane").c_str()) == 0; }},
        {"cut off a file of a known name that engines have mapped",
         [](const Target& target) {
             return ::truncate(target.path(".bell").c_str(), 0) == 0 ||
                    ::truncate(target.path(".plane").c_str(), 0) == 0;
         }},
        {"move the directory away",
         [](const Target& target) {
             const std::string& directory = target.daemon.shm_directory();
             return ::rename(directory.c_str(), (directory + "-gone").c_str()) == 0;
         }},
        {"read the plane", [](const Target& target) { return can_open(target.path(".plane"), O_RDONLY); }},
        {"write to the plane", [](const Target& target) { return can_open(target.path(".plane"), O_RDWR); }},
        {"read a session's record",
         [](const Target& target) { return can_open(target.victim_path + ".owner", O_RDONLY); }},
        {"find a segment's path in a process's arguments",
         [](const Target& target) {
             for (const auto& process : std::filesystem::directory_iterator("/proc")) {
                 const auto words = text_of(process.path() / "cmdline").value_or("");
                 if (words.find(target.daemon.shm_directory()) != std::string::npos) return true;
             }
             return false;
         }},
        {"close a session",
         [](const Target& target) {
             return answered(target.daemon.endpoint(),
                             [&](auto& b) { return wire::CreateClose(b, target.victim_id); });
         }},
        {"read a session's decisions",
         [](const Target& target) {
             return answered(target.daemon.endpoint(),
                             [&](auto& b) { return wire::CreateConfigure(b, target.victim_id, true); });
         }},
        {"take a session over", [](const Target& target) { return opens(target, false, true); }},
        {"resume a session", [](const Target& target) { return opens(target, true, false); }},
        {"drain the daemon",
         [](const Target& target) {
             return answered(target.daemon.endpoint(), [](auto& b) { return wire::CreateDrain(b); });
         }},
        {"learn a session's id from Statistics",
         [](const Target& target) {
             ControlPeer peer(target.daemon.endpoint());
             FlatBufferBuilder builder;
             wire::finish(builder, 1, wire::CreateStatistics(builder));
             peer.send(builder);
             const std::string told = peer.receive()->body_as_StatisticsReply()->json()->str();
             return told.find(std::to_string(target.victim_id)) != std::string::npos;
         }},
        {"claim another's id in his own header",
         [](const Target& target) {
             return in_own_session(target, [&](const std::string&, const shm::Segment& segment) {
                 segment.header().session_id = target.victim_id;
                 EngineShape shape;
                 shape.takeover = true;
                 SmallEngine again(target.daemon.endpoint(), "own", shape);
             });
         }},
        {"claim another's name in his own header",
         [](const Target& target) {
             return in_own_session(target, [&](const std::string&, const shm::Segment& segment) {
                 std::strcpy(segment.header().name, "victim");
                 EngineShape shape;
                 shape.takeover = true;
                 SmallEngine again(target.daemon.endpoint(), "own", shape);
             });
         }},
        {"make his own counters contradict each other",
         [](const Target& target) {
             return in_own_session(target, [](const std::string&, const shm::Segment& segment) {
                 segment.header().published = ~0ULL;
                 segment.header().taken = 7;
             });
         }},
        {"cut his own segment off",
         [](const Target& target) {
             return in_own_session(target, [](const std::string& path, const shm::Segment&) {
                 if (::truncate(path.c_str(), 0) != 0) std::abort();
             });
         }},
        {"take the descriptors of the daemon by connections that say nothing",
         [](const Target& target) {
             const auto peers = idle_peers(target.daemon.directory() + "/control.sock", 600);
             return !eventually([&] { return open_ones(peers) <= 100; });
         }},
        {"open a session whose columns hold up those of others",
         [](const Target& target) {
             EngineShape shape;
             shape.vocab = proto::kMaxVocab;
             shape.max_support = proto::kMaxSupport;
             return failure_of([&] { SmallEngine(target.daemon.endpoint(), "dear", shape); }).empty();
         }},
        {"forge a line of the log",
         [](const Target& target) {
             answered(target.daemon.endpoint(), [](auto& b) {
                 return wire::CreateOpenDirect(b, "x\nforged line\n", 500, 1, 8, 2, 0, 64, 8, 64, 4, 4, 0);
             });
             return target.daemon.says("\nforged line");
         }},
    };
    return all;
}

}  // namespace

TEST_CASE("of the attacks in docs/security.md none succeeds as a second user of the host") {
    if (!shm::can_change_user() || !shm::child_can_start_threads()) return;
    // As open as a configuration can make it: every user may connect, open sessions and attach to them.
    const LimitedCroupierd few_files("ulimit -n 300");
    DaemonProcess daemon(kTwoSamplers, kForAllUsers, few_files.path());
    let_all_users_in(daemon);
    ::chmod((daemon.directory() + "/log").c_str(), 0666);
    SmallEngine victim(daemon.endpoint(), "victim");
    victim.admit(4);
    victim.step();
    const auto id = shm::Segment::attach(victim.segment_path(), shm::Access::read_only).value().id();
    const Target target{daemon, victim.segment_path(), id};
    const pid_t pid = daemon.pid();
    const ChildProcess beside = start_stand_in(victim.segment_path(), daemon.directory() + "/stand-in.log");
    for (const Attack& attack : attacks()) {
        INFO(attack.name);
        CHECK(shm::as_nobody([&] { return attack.succeeds(target) ? 1 : 0; }) == 0);
        victim.steps(2);
        CHECK(::kill(pid, 0) == 0);
        CHECK(daemon.sampler_restarts() == 0);
    }
}

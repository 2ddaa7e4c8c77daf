// A control group that limits the daemon's memory: what it lacks is refused, and not taken by the kernel's
// OOM killer from the daemon.
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "testing/daemon_process.h"
#include "testing/small_engine.h"
#include "tests/daemon/limited_croupierd.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

namespace fs = std::filesystem;

// A control group of the memory controller, of either version, and one within it.
class MemoryGroup {
  public:
    explicit MemoryGroup(std::uint64_t limit) {
        const std::string name = "croupier-test-" + std::to_string(::getpid());
        for (const char* root : {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"}) {
            std::error_code failure;
            const fs::path group = fs::path(root) / name;
            fs::create_directory(group, failure);
            if (failure) continue;
            const bool version_2 = fs::exists(group / "memory.max");
            if (version_2) write(group / "cgroup.subtree_control", "+memory");
            if ((version_2 || fs::exists(group / "memory.limit_in_bytes")) &&
                write(group / (version_2 ? "memory.max" : "memory.limit_in_bytes"), std::to_string(limit))) {
                fs::create_directory(group / "inner", failure);
                path_ = group;
                return;
            }
            ::rmdir(group.c_str());
        }
        WARN("skipped: no control group with a memory limit can be made here");
    }
    ~MemoryGroup() {
        if (path_.empty()) return;
        // The kernel lets go of a group some time after its last process.
        eventually([&] { return ::rmdir(inner().c_str()) == 0 || errno != EBUSY; });
        eventually([&] { return ::rmdir(path_.c_str()) == 0 || errno != EBUSY; });
    }
    MemoryGroup(const MemoryGroup&) = delete;
    MemoryGroup& operator=(const MemoryGroup&) = delete;

    bool is_there() const { return !path_.empty(); }
    std::string folder() const { return path_.string(); }
    // Without a limit of its own.
    std::string inner() const { return (path_ / "inner").string(); }
    std::string enter() const { return "echo $$ >" + inner() + "/cgroup.procs"; }

  private:
    static bool write(const fs::path& file, const std::string& text) {
        std::ofstream out(file);
        out << text << std::flush;
        return out.good();
    }
    fs::path path_;
};

constexpr std::uint64_t kLimit = std::uint64_t{320} << 20U;

// Of `mebibytes`, nearly: logits of two bytes.
EngineShape of_size(std::uint32_t mebibytes) {
    EngineShape shape;
    shape.vocab = 131072;
    shape.tp = 1;
    shape.steps_in_flight = 2;
    shape.batch = mebibytes * 2;
    return shape;
}

std::string opening(const DaemonProcess& daemon, const char* name, std::uint32_t mebibytes) {
    return failure_of([&] {
        SmallEngine engine(daemon.endpoint(), name, of_size(mebibytes));
        engine.admit(4);
        engine.step();
        engine.session().close();
    });
}

}  // namespace

TEST_CASE("a session that the control group's memory lacks is refused, and one that fits is opened",
          "[memory]") {
    const MemoryGroup group(kLimit);
    if (!group.is_there()) return;
    const LimitedCroupierd limited(group.enter());
    DaemonProcess daemon("{count: 1}", "", limited.path());
    SmallEngine neighbour(daemon.endpoint(), "small");
    neighbour.admit(4);
    neighbour.step();
    for (int round = 0; round < 2; ++round) {
        CHECK_THAT(opening(daemon, "large", 400), Contains("no_memory") && Contains(group.folder()) &&
                                                      Contains(std::to_string(kLimit)) &&
                                                      Contains("MemoryMax="));
        neighbour.steps(2);
        CHECK_THAT(opening(daemon, "middle", 100), Catch::Equals(""));
        // Its name again while what it had is still being let go.
        CHECK_THAT(opening(daemon, "middle", 150), Catch::Equals(""));
    }
    CHECK(daemon.sampler_restarts() == 0);
    CHECK(daemon.terminate() == 0);
}

TEST_CASE("page cache that the kernel can drop is no reason to refuse a session", "[memory]") {
    const MemoryGroup group(kLimit);
    if (!group.is_there()) return;
    const Sandbox files;
    const std::string file = files.directory() + "/cached";
    // Read within the group, so that the group is charged for it.
    const LimitedCroupierd limited(group.enter() + "\nhead -c 250M /dev/zero >" + file + "; cat " + file +
                                   " >/dev/null; sync " + file);
    DaemonProcess daemon("{count: 1}", "", limited.path());
    CHECK_THAT(opening(daemon, "middle", 150), Catch::Equals(""));
    CHECK(daemon.terminate() == 0);
}

TEST_CASE("two sessions that are opened at once and fit together are both opened", "[memory]") {
    const MemoryGroup group(kLimit);
    if (!group.is_there()) return;
    const LimitedCroupierd limited(group.enter());
    DaemonProcess daemon("{count: 1}", "", limited.path());
    const auto open_one = [&](const char* name) {
        return ChildProcess::start([&daemon, name] {
            return failure_of([&] { SmallEngine(daemon.endpoint(), name, of_size(110)); }).empty() ? 0 : 1;
        });
    };
    auto first = open_one("first");
    auto second = open_one("second");
    CHECK(first.wait() == 0);
    CHECK(second.wait() == 0);
    CHECK(daemon.terminate() == 0);
}

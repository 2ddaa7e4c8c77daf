// What nobody holds any more goes, whatever version it is of: at the daemon's hands, and by `croupier
// cleanup`.
#include "tools/status/cleanup.h"

#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <utility>

#include "shm/segment.h"
#include "testing/child_process.h"
#include "testing/daemon_process.h"
#include "testing/small_engine.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

void make_other_version(const std::string& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(offsetof(proto::SegmentHeader, version));
    const std::uint32_t version = 99;
    file.write(reinterpret_cast<const char*>(&version), sizeof(version));
}

// So many more files can be opened by a process: 0 stands for this one; a daemon opens none.
class DescriptorsLeft {
  public:
    DescriptorsLeft(pid_t process, int left) : process_(process) {
        ::prlimit(process_, RLIMIT_NOFILE, nullptr, &before_);
        const rlimit lower{process_ == 0 ? first_free() + static_cast<rlim_t>(left) : kOfDaemon,
                           before_.rlim_max};
        ::prlimit(process_, RLIMIT_NOFILE, &lower, nullptr);
    }
    ~DescriptorsLeft() { ::prlimit(process_, RLIMIT_NOFILE, &before_, nullptr); }
    DescriptorsLeft(const DescriptorsLeft&) = delete;
    DescriptorsLeft& operator=(const DescriptorsLeft&) = delete;

  private:
    // Below it all are in use, and poll() takes the daemon's six still.
    static constexpr rlim_t kOfDaemon = 7;

    static rlim_t first_free() {
        const shm::FileDescriptor probe(::dup(STDERR_FILENO));
        return static_cast<rlim_t>(probe.get());
    }

    pid_t process_;
    rlimit before_{};
};

bool plane_is_held(const DaemonProcess& daemon) {
    const auto plane =
        shm::open_file(shm::plane_path(daemon.shm_directory(), daemon.instance()), shm::Access::read_only);
    return !plane || shm::first_locked_byte(plane.value()).has_value();
}

}  // namespace

TEST_CASE("a segment of another version stays while a client holds it, and goes when nobody does") {
    DaemonProcess daemon;
    auto held = std::make_unique<SmallEngine>(daemon.endpoint(), "held");
    const std::string held_path = held->segment_path();
    std::string free_path;
    {
        SmallEngine free(daemon.endpoint(), "free");
        free_path = free.segment_path();
        daemon.kill_now();
    }
    make_other_version(held_path);
    make_other_version(free_path);
    daemon.start();
    REQUIRE(daemon.await_ready());
    REQUIRE(eventually([&] { return !std::filesystem::exists(free_path); }));
    CHECK(std::filesystem::exists(held_path));
    CHECK(daemon.says("leaving " + held_path + " alone"));
    held.reset();
    CHECK(eventually([&] { return !std::filesystem::exists(held_path); }));
    CHECK(daemon.says("removing " + held_path + ": this daemon cannot serve it"));
}

TEST_CASE("cleanup under a live daemon removes what nobody holds, and nothing else") {
    const DaemonProcess daemon;
    SmallEngine living(daemon.endpoint(), "living");
    living.admit(8);
    living.step();
    const std::string stump = daemon.shm_directory() + "/croupier-" + daemon.instance() + "-12345.seg";
    std::ofstream(stump) << "no segment at all";
    REQUIRE(tools::clean_up(daemon.shm_directory(), daemon.instance()));
    CHECK_FALSE(std::filesystem::exists(stump));
    // The living session's segment and its owner's record, and the plane.
    CHECK(daemon.files_in_shm() == 3);
    living.steps(2);
}

TEST_CASE("cleanup waits for a daemon that is starting, whose plane it would remove") {
    DaemonProcess daemon;
    daemon.kill_now();
    // Its samplers end after it, and what a live process holds stays.
    REQUIRE(eventually([&] { return !plane_is_held(daemon); }));
    std::optional<shm::FileDescriptor> starting =
        std::move(shm::lock_directory(daemon.shm_directory())).value();
    auto cleanup = ChildProcess::start(
        [&] { return tools::clean_up(daemon.shm_directory(), daemon.instance()) ? 0 : 1; });
    const auto opened_directory = [&] {
        std::error_code gone;
        for (const auto& entry :
             std::filesystem::directory_iterator("/proc/" + std::to_string(cleanup.pid()) + "/fd", gone)) {
            if (std::filesystem::read_symlink(entry.path(), gone) == daemon.shm_directory()) return true;
        }
        return false;
    };
    REQUIRE(eventually(opened_directory));
    CHECK(daemon.files_in_shm() == 1);
    starting.reset();
    CHECK(cleanup.wait() == 0);
    CHECK(daemon.files_in_shm() == 0);
}

TEST_CASE("cleanup leaves a segment of another version that a live client holds") {
    DaemonProcess daemon;
    SmallEngine held(daemon.endpoint(), "held");
    daemon.kill_now();
    make_other_version(held.segment_path());
    REQUIRE(tools::clean_up(daemon.shm_directory(), daemon.instance()));
    CHECK(std::filesystem::exists(held.segment_path()));
}

TEST_CASE("a segment that a live client holds stays when it cannot be opened for want of descriptors") {
    DaemonProcess daemon;
    std::optional<shm::Segment> held;
    {
        SmallEngine opens(daemon.endpoint(), "held");
        daemon.kill_now();
        held.emplace(shm::Segment::attach(opens.segment_path(), shm::Access::read_write).value());
    }
    // Without a client's sockets, which would come back to the daemon and take descriptors.
    REQUIRE(held->hold(shm::Role::client));
    const std::string path = held->path();
    make_other_version(path);
    SECTION("by cleanup") {
        // The directory's lock, and what lists it.
        const DescriptorsLeft two(0, 2);
        const auto cleaned = tools::clean_up(daemon.shm_directory(), daemon.instance());
        CHECK(std::filesystem::exists(path));
        CHECK(cleaned.value().removed.empty());
        CHECK(cleaned.value().kept.at(0).path == path);
        CHECK_THAT(cleaned.value().kept.at(0).reason, Contains("Too many open files"));
    }
    SECTION("by the daemon") {
        daemon.start();
        REQUIRE(daemon.await_ready());
        {
            const DescriptorsLeft none(daemon.pid(), 0);
            daemon.await_housekeeping();
            CHECK(std::filesystem::exists(path));
        }
        held.reset();
        CHECK(eventually([&] { return !std::filesystem::exists(path); }));
    }
}

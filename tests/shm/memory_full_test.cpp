// "/dev/shm full": said at creation, and nothing is left behind.
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "shm/plane.h"
#include "test_session.h"
#include "testing/child_process.h"

using namespace croupier;
using namespace croupier::shm;
using namespace croupier::testing;

namespace {

constexpr int kNotPermitted = 77;
constexpr int kAsPromised = 0;

// A tmpfs of 1 MiB over the directory, for the calling process alone.
bool mount_small_tmpfs(const std::string& directory) {
    return ::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           ::mount("tmpfs", directory.c_str(), "tmpfs", 0, "size=1m") == 0;
}

fsblkcnt_t free_blocks(const std::string& directory) {
    struct statvfs status {};
    ::statvfs(directory.c_str(), &status);
    return status.f_bfree;
}

int create_too_much(const TestDirectory& directory) {
    if (!mount_small_tmpfs(directory.path())) return kNotPermitted;
    const fsblkcnt_t before = free_blocks(directory.path());
    proto::Geometry g = small_geometry();
    g.max_length = 1U << 20U;
    const auto created = Segment::create(spec_in(directory, g));
    if (created) return 1;
    if (created.error().code != Errc::no_memory) return 2;
    if (created.error().message.find(directory.path()) == std::string::npos) return 3;
    if (!std::filesystem::is_empty(directory.path())) return 4;
    if (free_blocks(directory.path()) != before) return 5;
    if (created.error().message.find("smaller batch") == std::string::npos) return 7;
    return Segment::create(spec_in(directory, small_geometry())) ? kAsPromised : 6;
}

int create_too_many_journals(const TestDirectory& directory) {
    if (!mount_small_tmpfs(directory.path())) return kNotPermitted;
    const auto created = Plane::create(directory.path(), "test", 64, 1);
    if (created) return 1;
    if (created.error().code != Errc::no_memory) return 2;
    const std::string& said = created.error().message;
    if (said.find(directory.path()) == std::string::npos) return 3;
    if (said.find("samplers.count") == std::string::npos) return 4;
    if (said.find("batch") != std::string::npos) return 5;
    if (!std::filesystem::is_empty(directory.path())) return 6;
    return Plane::create(directory.path(), "test", 1, 1) ? kAsPromised : 7;
}

}  // namespace

TEST_CASE(
    "a full /dev/shm is no_memory at creation, leaves nothing behind, and a smaller session still fits") {
    TestDirectory directory;
    auto child = ChildProcess::start([&] { return create_too_much(directory); });
    const int result = child.wait();
    if (result == kNotPermitted) {
        WARN("skipped: mounting a tmpfs in a namespace is not permitted here");
    } else {
        CHECK(result == kAsPromised);
    }
}

TEST_CASE("a shared memory too small for the samplers' plane is told with the key that makes it smaller") {
    TestDirectory directory;
    auto child = ChildProcess::start([&] { return create_too_many_journals(directory); });
    const int result = child.wait();
    if (result == kNotPermitted) {
        WARN("skipped: mounting a tmpfs in a namespace is not permitted here");
    } else {
        CHECK(result == kAsPromised);
    }
}

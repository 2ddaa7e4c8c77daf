// Where a segment's memory lies and in which pages: asked of the kernel afterwards, not of what was wished.
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "test_session.h"
#include "testing/child_process.h"

using namespace croupier;
using namespace croupier::shm;
using namespace croupier::testing;

namespace {

constexpr int kNotPermitted = 77;
constexpr int kAsPromised = 0;

bool mount_tmpfs(const std::string& directory, const char* options) {
    return ::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           ::mount("tmpfs", directory.c_str(), "tmpfs", 0, options) == 0;
}

SegmentSpec large_spec(const TestDirectory& directory, Hugepages wanted) {
    proto::Geometry geometry = small_geometry();
    geometry.max_list_tokens = 1U << 16U;
    geometry.max_sequences = 64;
    SegmentSpec spec = spec_in(directory, geometry);
    spec.hugepages = wanted;
    return spec;
}

// On a tmpfs that is mounted with `options`.
template <typename Body>
int on_tmpfs(const char* options, Body&& body) {
    const TestDirectory directory;
    auto child = ChildProcess::start([&] {
        if (!mount_tmpfs(directory.path(), options)) return kNotPermitted;
        return body(directory);
    });
    const int result = child.wait();
    if (result == kNotPermitted)
        WARN("skipped: mounting a tmpfs with " << options << " is not permitted here");
    return result == kNotPermitted ? kAsPromised : result;
}

bool says(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("huge pages that are required and not given are an error that names the mount's option") {
    CHECK(on_tmpfs("size=512m,huge=never", [](const TestDirectory& directory) {
              const auto created = Segment::create(large_spec(directory, Hugepages::require));
              if (created) return 1;
              const std::string& said = created.error().message;
              if (created.error().code != Errc::no_memory || !says(said, "huge=")) return 2;
              return says(said, directory.path()) ? kAsPromised : 3;
          }) == kAsPromised);
}

TEST_CASE("huge pages that are tried and not given are said to be none, and the session is made") {
    CHECK(on_tmpfs("size=512m,huge=never", [](const TestDirectory& directory) {
              const auto created = Segment::create(large_spec(directory, Hugepages::try_to));
              if (!created) return 1;
              return says(created.value().hugepage_note(), "0 of ") ? kAsPromised : 2;
          }) == kAsPromised);
}

TEST_CASE("a tmpfs that gives huge pages on advice gives them to the whole segment") {
    CHECK(on_tmpfs("size=512m,huge=advise", [](const TestDirectory& directory) {
              const auto created = Segment::create(large_spec(directory, Hugepages::require));
              // Memory in small pieces may give some; none at all means that none was asked for.
              if (!created) return says(created.error().message, "but 0 of ") ? 1 : kAsPromised;
              return says(created.value().hugepage_note(), "lie in huge pages") ? kAsPromised : 3;
          }) == kAsPromised);
}

TEST_CASE("a segment prefers the node that it is given, for whoever maps it") {
    TestDirectory directory;
    SegmentSpec spec = spec_in(directory, small_geometry());
    spec.node = 0;
    const auto created = Segment::create(spec);
    REQUIRE(created);
    const auto attached = Segment::attach(created.value().path(), Access::read_only);
    int policy = -1;
    unsigned long nodes[16] = {};
    const long done = ::syscall(SYS_get_mempolicy, &policy, nodes, sizeof(nodes) * 8,
                                attached.value().mapping().get_address(), MPOL_F_ADDR);
    if (done != 0) {
        WARN("skipped: this kernel, or this sandbox, tells no memory policies");
        return;
    }
    CHECK(policy == MPOL_PREFERRED);
    CHECK(nodes[0] == 1);
}

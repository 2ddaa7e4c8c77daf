// "/dev/shm full": said at creation, and nothing is left behind.
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <vector>

#include "shm/plane.h"
#include "shm/sequence_table.h"
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
           ::mount("tmpfs", directory.c_str(), "tmpfs", 0, "size=1m,mode=700") == 0;
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
    g.max_list_tokens = 1U << 16U;
    g.max_sequences = 64;
    const auto created = Segment::create(spec_in(directory, g));
    if (created) return 1;
    if (created.error().code != Errc::no_memory) return 2;
    if (created.error().message.find(directory.path()) == std::string::npos) return 3;
    if (!std::filesystem::is_empty(directory.path())) return 4;
    if (free_blocks(directory.path()) != before) return 5;
    if (created.error().message.find("smaller batch") == std::string::npos) return 7;
    return Segment::create(spec_in(directory, small_geometry())) ? kAsPromised : 6;
}

proto::Geometry geometry_of_long_logs() {
    proto::Geometry g = small_geometry();
    g.max_sequences = 4;
    g.max_length = 1U << 20U;
    return g;
}

NewSequence sequence_of(std::uint64_t uid, std::span<const std::int32_t> prompt) {
    NewSequence sequence;
    sequence.uid = uid;
    sequence.prompt = prompt;
    return sequence;
}

// 16 MiB of logs could grow in 1 MiB.
int fill_with_logs(const TestDirectory& directory) {
    if (!mount_small_tmpfs(directory.path())) return kNotPermitted;
    auto created = Segment::create(spec_in(directory, geometry_of_long_logs()));
    if (!created) return 1;
    const fsblkcnt_t at_open = free_blocks(directory.path());
    auto client = Segment::attach(created.value().path(), Access::read_write);
    SequenceTable table(client.value());
    const std::vector<std::int32_t> short_prompt(100, 7);
    const std::vector<std::int32_t> long_prompt(30'000, 9);
    const auto small = table.add(sequence_of(1, short_prompt));
    const auto large = table.add(sequence_of(2, long_prompt));
    if (!small || !large) return 2;
    const auto refused = table.add(sequence_of(3, std::vector<std::int32_t>(300'000, 5)));
    if (refused || refused.error().code != Errc::no_memory) return 3;
    for (const char* part : {"sequence 3 of 300000 tokens", "--shm-size"})
        if (refused.error().message.find(part) == std::string::npos) return 4;
    // The one whose log cannot grow keeps what it has, and so do the others.
    table.make_room(large.value(), 900'000);
    const auto room = [&](std::uint32_t slot) { return client.value().sequence(slot).log_room.load(); };
    if (room(large.value()) < 30'001 || room(large.value()) >= 900'000) return 5;
    table.make_room(small.value(), 5000);
    if (room(small.value()) < 5000) return 6;
    const std::int32_t* log = client.value().token_log(large.value());
    if (std::count(log, log + 30'000, 9) != 30'000) return 7;
    table.remove(large.value());
    const auto again = table.add(sequence_of(4, long_prompt));
    if (!again) return 8;
    table.remove(again.value());
    table.remove(small.value());
    // A slot that was used keeps 16 KiB.
    const fsblkcnt_t kept = (at_open - free_blocks(directory.path())) * 4096;
    return kept <= fsblkcnt_t{3} * 16384 ? kAsPromised : 9;
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

TEST_CASE("token logs take memory as they grow, say when there is none, and give it back") {
    TestDirectory directory;
    auto child = ChildProcess::start([&] { return fill_with_logs(directory); });
    const int result = child.wait();
    if (result == kNotPermitted) {
        WARN("skipped: mounting a tmpfs in a namespace is not permitted here");
    } else {
        CHECK(result == kAsPromised);
    }
}

TEST_CASE("a client that resumes a session finds the logs that its predecessor gave memory") {
    TestDirectory directory;
    auto created = Segment::create(spec_in(directory, geometry_of_long_logs()));
    const std::vector<std::int32_t> prompt(10'000, 3);
    std::uint32_t slot = 0;
    {
        auto first = Segment::attach(created.value().path(), Access::read_write);
        slot = SequenceTable(first.value()).add(sequence_of(1, prompt)).value();
    }
    auto next = Segment::attach(created.value().path(), Access::read_write);
    SequenceTable table(next.value());
    const std::uint32_t room = next.value().sequence(slot).log_room.load();
    CHECK(room >= 10'001);
    table.make_room(slot, room + 1);
    CHECK(next.value().sequence(slot).log_room.load() > room);
    const std::int32_t* log = next.value().token_log(slot);
    CHECK(std::count(log, log + 10'000, 3) == 10'000);
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

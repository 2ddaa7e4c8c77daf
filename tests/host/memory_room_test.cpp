// Memory left in control groups, by copies of /proc and /sys of both versions.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "host/control_group.h"

using namespace croupier;

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMiB = 1U << 20U;

std::string mib(std::uint64_t count) {
    return std::to_string(count * kMiB) + "\n";
}

// A host made of files, whose process is in the group /a/b.
class FileHost {
  public:
    explicit FileHost(bool version_2) : version_2_(version_2) {
        std::string name = fs::temp_directory_path() / "croupier-host-XXXXXX";
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        root_ = name;
        write("/proc/self/cgroup", version_2 ? "0::/a/b\n" : "4:memory:/a/b\n0::/\n");
        write("/proc/self/mountinfo",
              version_2 ? "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
                        : "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
        write("/proc/meminfo", "MemTotal: 1000000 kB\nSwapFree: 0 kB\n");
    }
    ~FileHost() { fs::remove_all(root_); }
    FileHost(const FileHost&) = delete;
    FileHost& operator=(const FileHost&) = delete;

    // `group`: "", "/a" or "/a/b".
    void limit(const std::string& group, const std::string& limit, const std::string& used) const {
        write_in(group, version_2_ ? "memory.max" : "memory.limit_in_bytes", limit);
        write_in(group, version_2_ ? "memory.current" : "memory.usage_in_bytes", used);
    }
    void write_in(const std::string& group, const std::string& file, const std::string& text) const {
        write((version_2_ ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory") + group + "/" + file, text);
    }
    void write(const std::string& path, const std::string& text) const {
        fs::create_directories((root_ + path).substr(0, (root_ + path).rfind('/')));
        std::ofstream(root_ + path) << text;
    }
    std::optional<host::MemoryRoom> room() const { return host::memory_room({root_, "self"}); }

  private:
    bool version_2_;
    std::string root_;
};

}  // namespace

TEST_CASE("without a limit or control groups the memory left is unknown") {
    CHECK_FALSE(host::memory_room({"/nonexistent", "self"}));
    const FileHost version_2(true);
    version_2.limit("/a", "max\n", mib(100));
    version_2.limit("/a/b", "max\n", mib(100));
    CHECK_FALSE(version_2.room());
    const FileHost version_1(false);
    version_1.limit("/a/b", "9223372036854771712\n", mib(100));
    CHECK_FALSE(version_1.room());
}

TEST_CASE("the group with the least memory left counts, and is named") {
    for (const bool version_2 : {true, false}) {
        const FileHost host(version_2);
        host.limit("", version_2 ? "max\n" : "9223372036854771712\n", mib(5000));
        // The outer group has the larger limit, and less left of it: others use it too.
        host.limit("/a", mib(1000), mib(950));
        host.limit("/a/b", mib(500), mib(200));
        const auto room = host.room();
        REQUIRE(room);
        CHECK(room->left == 50 * kMiB);
        CHECK(room->limit == 1000 * kMiB);
        CHECK(room->group.ends_with("/a"));
        host.limit("/a", mib(1000), mib(300));
        CHECK(host.room()->left == 300 * kMiB);
        CHECK(host.room()->group.ends_with("/a/b"));
        host.limit("/a/b", mib(500), mib(501));
        CHECK(host.room()->left == 0);
    }
}

TEST_CASE("page cache and reclaimable slabs count as free, and memory of tmpfs does not") {
    const FileHost version_2(true);
    version_2.limit("/a/b", mib(500), mib(450));
    version_2.write_in("/a/b", "memory.stat",
                       "anon " + mib(50) + "file " + mib(330) + "shmem " + mib(200) + "inactive_anon " +
                           mib(250) + "active_anon 0\ninactive_file " + mib(100) + "active_file " + mib(30) +
                           "slab_reclaimable " + mib(10));
    CHECK(version_2.room()->left == (50 + 100 + 30 + 10) * kMiB);
    const FileHost version_1(false);
    version_1.limit("/a/b", mib(500), mib(450));
    // The group's own counts exclude its children.
    version_1.write_in("/a/b", "memory.stat",
                       "inactive_file 0\nactive_file 0\ntotal_inactive_file " + mib(100) +
                           "total_active_file " + mib(30) + "total_inactive_anon " + mib(250));
    CHECK(version_1.room()->left == (50 + 100 + 30) * kMiB);
}

TEST_CASE("swap that the group may use, and that the host has, counts as free") {
    const FileHost host(true);
    host.limit("/a/b", mib(500), mib(450));
    host.write_in("/a/b", "memory.swap.max", mib(200));
    host.write_in("/a/b", "memory.swap.current", mib(50));
    CHECK(host.room()->left == 50 * kMiB);
    host.write("/proc/meminfo", "SwapFree: 102400 kB\n");
    CHECK(host.room()->left == (50 + 100) * kMiB);
    host.write("/proc/meminfo", "SwapFree: 1024000 kB\n");
    CHECK(host.room()->left == (50 + 150) * kMiB);
    host.write_in("/a/b", "memory.swap.max", "max\n");
    CHECK(host.room()->left == (50 + 1000) * kMiB);
    host.write_in("/a/b", "memory.swap.max", "0\n");
    CHECK(host.room()->left == 50 * kMiB);
}

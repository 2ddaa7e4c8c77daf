// Cores of samplers and memory of segments, on simulated machines.
#include "host/placement.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "testing/child_process.h"

using namespace croupier;
using namespace croupier::testing;

namespace {

namespace fs = std::filesystem;

// While this object exists, hwloc reports this machine in new processes.
class FakeMachine {
  public:
    explicit FakeMachine(const char* description) { ::setenv("HWLOC_SYNTHETIC", description, 1); }
    ~FakeMachine() { ::unsetenv("HWLOC_SYNTHETIC"); }
    FakeMachine(const FakeMachine&) = delete;
    FakeMachine& operator=(const FakeMachine&) = delete;
};

constexpr const char* kTwoNodes = "numa:2 core:8 pu:1";

// A control group of the CPU controller of either version; an empty path if none can be created here.
class QuotaGroup {
  public:
    QuotaGroup() {
        const std::string name = "croupier-test-" + std::to_string(::getpid());
        for (const char* root : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup"}) {
            std::error_code failure;
            const fs::path group = fs::path(root) / name;
            fs::create_directory(group, failure);
            if (failure) continue;
            if (fs::exists(group / "cpu.max") || fs::exists(group / "cpu.cfs_quota_us")) {
                path_ = group;
                return;
            }
            ::rmdir(group.c_str());
        }
    }
    ~QuotaGroup() {
        if (!path_.empty()) ::rmdir(path_.c_str());
    }
    QuotaGroup(const QuotaGroup&) = delete;
    QuotaGroup& operator=(const QuotaGroup&) = delete;

    bool allow(int cpus) const {
        if (path_.empty()) return false;
        const std::string quota = std::to_string(cpus * 100000);
        if (fs::exists(path_ / "cpu.max")) return write("cpu.max", quota + " 100000");
        return write("cpu.cfs_period_us", "100000") && write("cpu.cfs_quota_us", quota);
    }
    bool enter() const { return write("cgroup.procs", std::to_string(::getpid())); }

  private:
    bool write(const char* file, const std::string& text) const {
        std::ofstream out(path_ / file);
        out << text << std::flush;
        return out.good();
    }
    fs::path path_;
};

}  // namespace

TEST_CASE("segments are placed on the node of most samplers' cores") {
    const FakeMachine machine(kTwoNodes);
    CHECK(host::node_of(host::place_samplers(4, 1, {8, 9, 10, 11})) == 1);
    CHECK(host::node_of(host::place_samplers(4, 1, {0, 1, 2, 3})) == 0);
    CHECK(host::node_of(host::place_samplers(3, 1, {7, 8, 9})) == 1);
    CHECK(host::node_of({"", ""}) == -1);
}

TEST_CASE("samplers share a core's two threads only where there are more of them than cores") {
    using Cores = std::vector<std::string>;
    const FakeMachine machine("numa:1 core:4 pu:2");
    CHECK(host::place_samplers(3, 1, {}) == Cores{"2", "4", "6"});
    CHECK(host::place_samplers(5, 1, {}) == Cores{"2", "4", "6", "3", "5"});
    CHECK(host::place_samplers(1, 3, {}) == Cores{"2,4,6"});
    // The first core is left to others whole, then its first thread, then nothing.
    CHECK(host::place_samplers(6, 1, {}) == Cores{"2", "4", "6", "3", "5", "7"});
    CHECK(host::place_samplers(7, 1, {}) == Cores{"2", "4", "6", "1", "3", "5", "7"});
    CHECK(host::place_samplers(9, 1, {}) == Cores{"0", "2", "4", "6", "1", "3", "5", "7", "0"});
    CHECK(host::place_samplers(4, 1, {0, 1, 2, 3}) == Cores{"0", "2", "1", "3"});
}

TEST_CASE("samplers fill a NUMA node before they are placed on the next one") {
    using Cores = std::vector<std::string>;
    const FakeMachine machine("numa:2 core:2 pu:2");
    CHECK(host::place_samplers(4, 1, {}) == Cores{"2", "3", "4", "6"});
    CHECK(host::place_samplers(6, 1, {}) == Cores{"2", "3", "4", "6", "5", "7"});
}

TEST_CASE("the number of samplers follows the CPU quota, not the visible cores") {
    const FakeMachine machine(kTwoNodes);
    CHECK(host::default_sampler_count(1) == 15);
    const QuotaGroup group;
    if (!group.allow(4)) {
        WARN("skipped: no control group with a CPU quota can be made here");
        return;
    }
    auto limited = ChildProcess::start([&] {
        if (!group.enter()) return 100;
        return static_cast<int>(host::default_sampler_count(1));
    });
    CHECK(limited.wait() == 3);
}

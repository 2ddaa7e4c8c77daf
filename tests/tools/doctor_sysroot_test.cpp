// Hosts that this one is not, as files: two NUMA nodes, GPUs, control groups, limits.
#include <filesystem>
#include <fstream>

#include "tests/tools/doctor_asker.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

namespace fs = std::filesystem;

constexpr int kNodes = 2;
constexpr int kCoresOfNode = 4;

// Two nodes of four cores, far from each other. A small host's /proc and /sys, as far as anybody reads them.
class FakeHost : public Workplace {
  public:
    FakeHost() {
        put("sys/devices/system/cpu/online", "0-7");
        put("sys/devices/system/cpu/possible", "0-7");
        put("sys/devices/system/node/online", "0-1");
        for (int core = 0; core < kNodes * kCoresOfNode; ++core) {
            const std::string folder = "sys/devices/system/cpu/cpu" + std::to_string(core);
            const int node = core / kCoresOfNode;
            put(folder + "/online", "1");
            put(folder + "/topology/core_id", std::to_string(core % kCoresOfNode));
            put(folder + "/topology/physical_package_id", std::to_string(node));
            put(folder + "/topology/core_cpus", mask(1 << core));
            put(folder + "/topology/thread_siblings", mask(1 << core));
            put(folder + "/topology/package_cpus", mask(0xf << (node * kCoresOfNode)));
            put(folder + "/topology/core_siblings", mask(0xf << (node * kCoresOfNode)));
        }
        node(0, "0-3", 0x0f, "10 21");
        node(1, "4-7", 0xf0, "21 10");
        put("proc/cpuinfo", cpuinfo());
        put("proc/self/status", "Name:\tcroupier\nCpus_allowed_list:\t0-7\n");
        put("proc/self/cgroup", "0::/service/croupierd");
        mounts("");
        put("proc/self/limits",
            "Limit                     Soft Limit           Hard Limit           Units\n"
            "Max locked memory         8388608              8388608              bytes\n");
        put("croupierd.yaml", "samplers: {count: 3, cores: \"0-3\"}\n");
    }

    void put(const std::string& file, const std::string& text) const {
        fs::create_directories((path() / file).parent_path());
        std::ofstream(path() / file) << text << "\n";
    }
    // With the options of /dev/shm, each behind a comma.
    void mounts(const std::string& options) const {
        put("proc/self/mountinfo",
            "1 0 0:1 / / rw - ext4 /dev/root rw\n"
            "2 1 0:2 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
            "3 1 0:3 / /dev/shm rw - tmpfs tmpfs rw" +
                options);
    }
    void gpu(const std::string& address, int on_node, const std::string& speed,
             const std::string& width) const {
        const std::string folder = "sys/bus/pci/devices/" + address;
        put(folder + "/vendor", "0x10de");
        put(folder + "/class", "0x030200");
        put(folder + "/numa_node", std::to_string(on_node));
        put(folder + "/current_link_speed", speed);
        put(folder + "/current_link_width", width);
        put(folder + "/max_link_speed", "32.0 GT/s PCIe");
        put(folder + "/max_link_width", "16");
    }
    DoctorAnswer ask(const std::string& more = "") const {
        return ask_doctor(*this, "--sysroot . --config croupierd.yaml" + more);
    }

  private:
    static std::string mask(int cores) {
        char text[16];
        std::snprintf(text, sizeof(text), "%08x", static_cast<unsigned>(cores));
        return text;
    }
    static std::string cpuinfo() {
        std::string text;
        for (int core = 0; core < kNodes * kCoresOfNode; ++core) {
            text += "processor\t: " + std::to_string(core) +
                    "\nphysical id\t: " + std::to_string(core / kCoresOfNode) +
                    "\ncore id\t\t: " + std::to_string(core % kCoresOfNode) + "\n\n";
        }
        return text;
    }
    void node(int index, const std::string& list, int cores, const std::string& distances) const {
        const std::string folder = "sys/devices/system/node/node" + std::to_string(index);
        put(folder + "/cpulist", list);
        put(folder + "/cpumap", mask(cores));
        put(folder + "/distance", distances);
        put(folder + "/meminfo", "Node " + std::to_string(index) + " MemTotal: 1048576 kB");
    }
};

}  // namespace

TEST_CASE("doctor: a host whose parts lie beside each other is fit") {
    const FakeHost host;
    host.gpu("0000:3b:00.0", 0, "32.0 GT/s PCIe", "16");
    const auto told = host.ask();
    INFO(told.answer.dump(2));
    CHECK(told.status == 0);
    CHECK(told.finding("cpu.cores")["facts"]["usable"] == 8);
    CHECK(told.level("numa.samplers") == "fine");
    CHECK(told.level("numa.gpus") == "fine");
    CHECK(told.level("pcie.links") == "fine");
    CHECK(told.level("daemon.answers") == "skipped");
}

TEST_CASE("doctor: GPUs on another node than the segments are named, with the distance and the keys to set") {
    const FakeHost host;
    host.gpu("0000:af:00.0", 1, "32.0 GT/s PCIe", "16");
    const auto told = host.ask();
    CHECK(told.status == 1);
    CHECK(told.level("numa.gpus") == "slower");
    CHECK_THAT(told.what("numa.gpus"), Contains("on node 1") && Contains("distance 21"));
    CHECK_THAT(told.remedy("numa.gpus"), Contains("shm.node: 1") && Contains("\"4-7\""));
    CHECK(told.finding("numa.gpus")["facts"]["distance"] == 21);
    // As the remedy says.
    host.put("croupierd.yaml", "samplers: {count: 3, cores: \"4-7\"}\nshm: {node: 1}\n");
    CHECK(host.ask().status == 0);
}

TEST_CASE("doctor: what logind removes at a user's logout is named, and each way to keep it") {
    const FakeHost host;
    const std::string user = " --user 65534";
    CHECK(host.ask(user).level("files.logout") == "fine");
    host.put("run/systemd/users/65534", "NAME=nobody");
    const auto told = host.ask(user);
    CHECK(told.level("files.logout") == "slower");
    CHECK_THAT(told.what("files.logout"), Contains("/dev/shm/croupier"));
    CHECK_THAT(told.remedy("files.logout"), Contains("enable-linger") && Contains("RemoveIPC=no"));
    // Nobody who logs in.
    CHECK(host.ask(" --user 0").level("files.logout") == "fine");
    host.put("etc/systemd/logind.conf", "[Login]\n#RemoveIPC=no\nRemoveIPC=no");
    CHECK(host.ask(user).level("files.logout") == "fine");
    host.put("usr/lib/systemd/logind.conf.d/10-keep.conf", "[Login]\nRemoveIPC=yes");
    CHECK(host.ask(user).level("files.logout") == "slower");
    // The same name in /etc hides it.
    host.put("etc/systemd/logind.conf.d/10-keep.conf", "[Login]");
    CHECK(host.ask(user).level("files.logout") == "fine");
    host.put("etc/systemd/logind.conf.d/20-other.conf", "[Login]\nRemoveIPC=yes");
    CHECK(host.ask(user).level("files.logout") == "slower");
    host.put("croupierd.yaml", "shm: {dir: /mnt/segments/croupier}\n");
    CHECK(host.ask(user).level("files.logout") == "fine");
}

TEST_CASE("doctor: samplers away from the segments' memory are counted") {
    const FakeHost host;
    host.put("croupierd.yaml", "samplers: {count: 7}\nshm: {node: 0}\n");
    const auto told = host.ask();
    CHECK(told.status == 1);
    CHECK(told.level("numa.samplers") == "slower");
    CHECK_THAT(told.what("numa.samplers"), Contains("4 of 7 samplers") && Contains("distance 21"));
}

TEST_CASE("doctor: a host without nodes, or GPUs whose node is not told, is no finding") {
    const FakeHost host;
    host.gpu("0000:00:06.0", -1, "Unknown", "255");
    const auto told = host.ask();
    CHECK(told.status == 0);
    CHECK(told.level("numa.gpus") == "skipped");
    CHECK(told.level("pcie.links") == "skipped");
    fs::remove_all(host.path() / "sys/devices/system/node");
    CHECK(host.ask().status == 0);
    fs::remove_all(host.path() / "sys");
    const Ended bare = host.run("doctor --sysroot . --config croupierd.yaml");
    CHECK(bare.status == 3);
    CHECK_THAT(bare.output, Contains("has no folder /sys/devices/system/cpu"));
}

TEST_CASE("doctor: a link with fewer lanes is slower, one that saves power is not") {
    const FakeHost host;
    host.gpu("0000:3b:00.0", 0, "2.5 GT/s PCIe", "16");
    const auto idle = host.ask();
    CHECK(idle.level("pcie.links") == "fine");
    CHECK_THAT(idle.what("pcie.links"), Contains("2.5 of 32 GT/s"));
    host.gpu("0000:5e:00.0", 0, "32.0 GT/s PCIe", "4");
    const auto narrow = host.ask();
    CHECK(narrow.status == 1);
    CHECK_THAT(narrow.what("pcie.links"), Contains("0000:5e:00.0 has x4") && Contains("of x16"));
}

TEST_CASE(
    "doctor: a quota below the samplers is slower, of either version of control groups and at any level") {
    const FakeHost host;
    SECTION("version 2, of the group itself") {
        host.put("sys/fs/cgroup/service/croupierd/cpu.max", "200000 100000");
    }
    SECTION("version 2, of a group above") {
        host.put("sys/fs/cgroup/service/croupierd/cpu.max", "max 100000");
        host.put("sys/fs/cgroup/service/cpu.max", "200000 100000");
    }
    SECTION("version 1") {
        host.put("proc/self/cgroup", "3:cpuset:/\n2:cpu,cpuacct:/service");
        host.put("proc/self/mountinfo",
                 "1 0 0:1 / / rw - ext4 /dev/root rw\n"
                 "2 1 0:2 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
                 "3 1 0:3 / /dev/shm rw - tmpfs tmpfs rw");
        host.put("sys/fs/cgroup/cpu/service/cpu.cfs_quota_us", "200000");
        host.put("sys/fs/cgroup/cpu/service/cpu.cfs_period_us", "100000");
    }
    const auto told = host.ask();
    CHECK(told.status == 1);
    CHECK(told.level("cpu.quota") == "slower");
    CHECK_THAT(told.what("cpu.quota"), Contains("a quota of 2 CPUs for 3 samplers"));
    CHECK_THAT(told.remedy("cpu.quota"), Contains("samplers.count to 1"));
    // The count that is chosen by itself goes by the quota.
    host.put("croupierd.yaml", "");
    CHECK(host.ask().level("cpu.quota") == "fine");
}

TEST_CASE("doctor: a memory limit below a session is broken") {
    const FakeHost host;
    host.put("sys/fs/cgroup/service/memory.max", "16777216");
    const auto told = host.ask();
    CHECK(told.status == 2);
    CHECK(told.level("memory.limit") == "broken");
    CHECK_THAT(told.what("memory.limit"), Contains("16 MiB"));
    host.put("sys/fs/cgroup/service/memory.max", "max");
    CHECK(host.ask().level("memory.limit") == "fine");
}

TEST_CASE(
    "doctor: huge pages that are asked for and not given are slower, or broken where they are required") {
    const FakeHost host;
    host.put("croupierd.yaml", "samplers: {count: 3, cores: \"0-3\"}\nshm: {hugepages: try}\n");
    CHECK(host.ask().level("memory.huge_pages") == "slower");
    host.put("croupierd.yaml", "samplers: {count: 3, cores: \"0-3\"}\nshm: {hugepages: require}\n");
    const auto required = host.ask();
    CHECK(required.status == 2);
    CHECK_THAT(required.remedy("memory.huge_pages"), Contains("remount,huge=advise /dev/shm"));
    host.mounts(",size=8g,huge=advise");
    CHECK(host.ask().status == 0);
}

TEST_CASE("doctor: a shm.dir on a disk is slower") {
    const FakeHost host;
    host.put("croupierd.yaml", "samplers: {count: 3, cores: \"0-3\"}\nshm: {dir: /var/lib/croupier}\n");
    const auto told = host.ask();
    CHECK(told.status == 1);
    CHECK_THAT(told.what("memory.mount"), Contains("ext4") && Contains("not in memory"));
}

TEST_CASE("doctor: locked memory matters where NCCL has InfiniBand") {
    const FakeHost host;
    CHECK(host.ask().level("memory.locked") == "fine");
    host.put("sys/class/infiniband/mlx5_0/node_type", "1: CA");
    const auto told = host.ask();
    CHECK(told.level("memory.locked") == "slower");
    CHECK_THAT(told.remedy("memory.locked"), Contains("LimitMEMLOCK=infinity"));
}

TEST_CASE("doctor: a core that is kept slow, and cores that the samplers may not use, are named") {
    const FakeHost host;
    host.put("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "powersave");
    const auto slow = host.ask();
    CHECK(slow.level("cpu.speed") == "slower");
    CHECK_THAT(slow.what("cpu.speed"), Contains("core 2") && Contains("powersave"));
    host.put("sys/devices/system/cpu/cpu2/cpufreq/scaling_driver", "amd-pstate-epp");
    CHECK(host.ask().level("cpu.speed") == "skipped");
    host.put("sys/devices/system/cpu/cpu2/cpufreq/scaling_max_freq", "1500000");
    host.put("sys/devices/system/cpu/cpu2/cpufreq/cpuinfo_max_freq", "3000000");
    CHECK_THAT(host.ask().what("cpu.speed"), Contains("limited to 50 %"));
    host.put("proc/self/status", "Cpus_allowed_list:\t0-1\n");
    const auto narrow = host.ask();
    CHECK(narrow.level("cpu.cpuset") == "slower");
    CHECK_THAT(narrow.what("cpu.cpuset"),
               Contains("samplers.cores lists 4 cores, and the daemon may run on 2"));
}

TEST_CASE("doctor: nonsense in the files of a host is read as nothing, not as numbers") {
    const FakeHost host;
    host.gpu("0000:3b:00.0", 0, "\xff\xfe", "-7");
    host.put("sys/fs/cgroup/service/cpu.max", "many few");
    host.put("sys/devices/system/node/node0/distance", "near far");
    host.put("proc/self/limits", "Max locked memory");
    host.put("proc/self/mountinfo", "\\9 - -\n - \n1 0 0:1 / /dev/shm\\04 rw - tmpfs tmpfs rw");
    const auto told = host.ask();
    INFO(told.answer.dump(2));
    CHECK(told.answer["findings"].size() == 28);
    CHECK(told.level("cpu.quota") == "fine");
}

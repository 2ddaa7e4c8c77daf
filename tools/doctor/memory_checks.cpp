// Shared memory: whether it is memory, how much there is, and in which pages.
#include <spdlog/fmt/fmt.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "host/control_group.h"
#include "proto/plane.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/mounts.h"

namespace croupier::tools::doctor {
namespace {

std::string mebibytes(std::uint64_t bytes) {
    constexpr double kMiB = 1024.0 * 1024.0;
    const double size = static_cast<double>(bytes) / kMiB;
    return size < 10240 ? fmt::format("{:.0f} MiB", size) : fmt::format("{:.0f} GiB", size / 1024);
}

std::int64_t number(std::uint64_t bytes) {
    return static_cast<std::int64_t>(bytes);
}

std::string session_in_words(const Examined& examined) {
    return fmt::format("a session with a vocabulary of {} and {} columns takes {}", examined.request.vocab,
                       examined.request.batch, mebibytes(session_bytes(examined.request)));
}

std::uint64_t plane_bytes(const Examined& examined) {
    return proto::plane_bytes(examined.samplers(), examined.config.samplers.threads_per_sampler);
}

// shm.dir itself may be made by the daemon's start.
std::string existing_part(const std::string& path) {
    std::filesystem::path existing = path;
    std::error_code failure;
    while (!existing.empty() && existing != "/" && !std::filesystem::exists(existing, failure)) {
        existing = existing.parent_path();
    }
    return existing.string();
}

std::optional<std::uint64_t> available_memory(const host::HostView& host) {
    const auto field = host::field_of(host.read("/proc/meminfo").value_or(""), "MemAvailable");
    if (!field) return std::nullopt;
    return std::strtoull(field->c_str(), nullptr, 10) * 1024;
}

std::string how_to_enlarge(const Mount& mount) {
    return "mount -o remount,size=8G " + mount.point +
           "; in a container: Docker --shm-size, Kubernetes an emptyDir with medium: Memory";
}

}  // namespace

Finding check_mount(const Examined& examined) {
    const std::string& directory = examined.config.shm.dir;
    const auto mount = mount_of(examined.host, directory);
    if (!mount) return skipped("the mounts of the process cannot be read");
    const std::vector<Fact> facts = {
        {"mount", mount->point}, {"type", mount->type}, {"options", mount->options}};
    if (mount->has("ro")) {
        return broken(fmt::format("shm.dir {} is on {}, which is mounted read-only", directory, mount->point),
                      "mount -o remount,rw " + mount->point, facts);
    }
    if (mount->type != "tmpfs" && mount->type != "hugetlbfs" && mount->type != "ramfs") {
        return slower(
            fmt::format("shm.dir {} is on {} ({}), which is no memory: the kernel writes segments to a disk",
                        directory, mount->point, mount->type),
            "shm.dir on a tmpfs, such as /dev/shm/croupier", facts);
    }
    const std::string size = mount->value("size");
    return fine(
        fmt::format("{} is a {}{}", mount->point, mount->type, size.empty() ? "" : " of size=" + size),
        facts);
}

Finding check_space(const Examined& examined) {
    const std::string directory = existing_part(examined.config.shm.dir);
    struct statvfs space {};
    if (::statvfs(directory.c_str(), &space) != 0)
        return skipped(directory + " cannot be asked for its size");
    const std::uint64_t total = std::uint64_t{space.f_blocks} * space.f_frsize;
    const std::uint64_t room = std::uint64_t{space.f_bavail} * space.f_frsize;
    // Without a limit of its own (size=0) a tmpfs says 0 of both.
    const std::uint64_t free = total == 0 ? UINT64_MAX : room;
    const std::uint64_t memory = available_memory(examined.host).value_or(UINT64_MAX);
    const std::uint64_t had = std::min(free, memory);
    // A daemon that lives has its plane.
    const std::uint64_t plane = examined.daemon_lives() ? 0 : plane_bytes(examined);
    const std::uint64_t wanted = session_bytes(examined.request) + plane;
    const std::vector<Fact> facts = {
        {"total_bytes", number(total)},
        {"free_bytes", number(room)},
        {"session_bytes", number(session_bytes(examined.request))},
        {"plane_bytes", number(plane)},
        {"daemon_may_take_bytes", number(examined.config.sessions.max_total_bytes)}};
    const std::string session =
        session_in_words(examined) +
        (plane == 0 ? ""
                    : fmt::format(", the plane of {} sampler{} {}", examined.samplers(),
                                  examined.samplers() == 1 ? "" : "s", mebibytes(plane)));
    if (had >= wanted) {
        return fine(fmt::format("{} free in {}; {}", had == UINT64_MAX ? "all memory" : mebibytes(had),
                                directory, session),
                    facts);
    }
    const std::string what = memory < free
                                 ? fmt::format("{} of memory are available; {}", mebibytes(memory), session)
                                 : fmt::format("{} of {} are free in {}; {}", mebibytes(room),
                                               mebibytes(total), directory, session);
    if (examined.daemon.sessions > 0) {
        return fine(what + ", so the sessions that are open are all that fit", facts);
    }
    const std::string smaller = had < plane ? "; or lower samplers.count" : "";
    if (memory < free)
        return broken(what, "end what takes the memory, or open smaller sessions" + smaller, facts);
    const Mount mount = mount_of(examined.host, directory).value_or(Mount{directory, "", ""});
    return broken(what, how_to_enlarge(mount) + smaller, facts);
}

Finding check_memory_limit(const Examined& examined) {
    const auto limit = host::memory_limit(examined.host);
    if (!limit) return fine("no control group limits the memory");
    const std::uint64_t wanted = session_bytes(examined.request);
    const std::vector<Fact> facts = {
        {"limit_bytes", number(*limit)},
        {"session_bytes", number(wanted)},
        {"daemon_may_take_bytes", number(examined.config.sessions.max_total_bytes)}};
    if (*limit < wanted) {
        return broken(
            fmt::format("the control group may have {} of memory; {}, and it is charged to the daemon",
                        mebibytes(*limit), session_in_words(examined)),
            "a larger limit (Docker --memory, systemd MemoryMax=, Kubernetes resources.limits.memory)",
            facts);
    }
    std::string what = fmt::format("the control group may have {} of memory", mebibytes(*limit));
    if (*limit < examined.config.sessions.max_total_bytes) {
        what += fmt::format("; sessions.max_total_bytes ({}) would not keep sessions below it",
                            mebibytes(examined.config.sessions.max_total_bytes));
    }
    return fine(what, facts);
}

Finding check_locked_memory(const Examined& examined) {
    const std::string limits = examined.host.read_of_process("limits").value_or("");
    constexpr std::string_view kName = "Max locked memory";
    const auto at = limits.find(kName);
    if (at == std::string::npos) return skipped("the limits of the process cannot be read");
    const std::string soft = limits.substr(limits.find_first_not_of(' ', at + kName.size()), 32);
    const std::string limit = soft.substr(0, soft.find(' '));
    if (limit == "unlimited") return fine("no limit of locked memory (memlock)");
    const std::uint64_t bytes = std::strtoull(limit.c_str(), nullptr, 10);
    const std::vector<Fact> facts = {{"memlock_bytes", number(bytes)}};
    constexpr std::uint64_t kEnoughForNccl = std::uint64_t{64} << 20U;
    if (bytes < kEnoughForNccl && !examined.host.list("/sys/class/infiniband").empty()) {
        return slower(
            fmt::format("{} KiB of memory may be locked (memlock), and NCCL locks what it sends over the "
                        "InfiniBand that is here",
                        bytes / 1024),
            "LimitMEMLOCK=infinity in the unit, memlock in /etc/security/limits.conf, Docker --ulimit "
            "memlock=-1",
            facts);
    }
    return fine(
        fmt::format("{} KiB may be locked (memlock), which is enough: Croupier locks none, and NCCL does "
                    "over InfiniBand alone",
                    bytes / 1024),
        facts);
}

Finding check_huge_pages(const Examined& examined) {
    const auto wanted = examined.config.shm.hugepages;
    const auto mount = mount_of(examined.host, examined.config.shm.dir);
    if (!mount) return skipped("the mounts of the process cannot be read");
    const std::string huge = mount->value("huge").empty() ? "never" : mount->value("huge");
    const std::vector<Fact> facts = {{"mount", mount->point}, {"huge", huge}};
    const bool gives =
        mount->type == "hugetlbfs" || huge == "advise" || huge == "within_size" || huge == "always";
    if (wanted == config::HugePages::off) {
        return fine(gives ? mount->point + " would give huge pages; shm.hugepages is off"
                          : "segments lie in ordinary pages, as shm.hugepages: off says",
                    facts);
    }
    if (gives) return fine(fmt::format("{} gives huge pages (huge={})", mount->point, huge), facts);
    const std::string remedy = "mount -o remount,huge=advise " + mount->point + ", or shm.hugepages: off";
    const std::string what =
        fmt::format("shm.hugepages is {}, and {} gives none (huge={})",
                    wanted == config::HugePages::require ? "require" : "try", mount->point, huge);
    if (wanted == config::HugePages::require)
        return broken(what + ": no session can be opened", remedy, facts);
    return slower(what, remedy, facts);
}

}  // namespace croupier::tools::doctor

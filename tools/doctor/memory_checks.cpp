// Shared memory: whether it is memory, how much there is, and in which pages.
#include <spdlog/fmt/fmt.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "host/control_group.h"
#include "host/mounts.h"
#include "proto/plane.h"
#include "tools/doctor/checks.h"

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

std::string how_to_enlarge(const host::Mount& mount) {
    return "mount -o remount,size=8G " + mount.point +
           "; in a container: Docker --shm-size, Kubernetes an emptyDir with medium: Memory";
}

}  // namespace

Finding check_mount(const Examined& examined) {
    const std::string& directory = examined.config.shm.dir;
    const auto mount = host::mount_of(examined.host, directory);
    if (!mount) return skipped("the process's mounts cannot be read");
    const std::vector<Fact> facts = {
        {"mount", mount->point}, {"type", mount->type}, {"options", mount->options}};
    if (mount->has("ro")) {
        return broken(fmt::format("shm.dir {} is on {}, which is mounted read-only", directory, mount->point),
                      "mount -o remount,rw " + mount->point, facts);
    }
    if (!mount->is_in_memory()) {
        return slower(
            fmt::format(
                "shm.dir {} is on {} ({}), which is not in memory: the kernel writes segments to a disk",
                directory, mount->point, mount->type),
            "set shm.dir to a folder on a tmpfs, such as /dev/shm/croupier", facts);
    }
    const std::string size = mount->value("size");
    return fine(
        fmt::format("{} is a {}{}", mount->point, mount->type, size.empty() ? "" : " with size=" + size),
        facts);
}

Finding check_space(const Examined& examined) {
    const std::string directory = existing_part(examined.config.shm.dir);
    struct statvfs space {};
    if (::statvfs(directory.c_str(), &space) != 0)
        return skipped("cannot read the size of the file system of " + directory);
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
        (plane < (std::uint64_t{1} << 20U)
             ? ""
             : fmt::format(", the daemon's own file for {} sampler{} {}", examined.samplers(),
                           examined.samplers() == 1 ? "" : "s", mebibytes(plane)));
    if (had >= wanted) {
        return fine(fmt::format("{} free in {}; {}", had == UINT64_MAX ? "all memory" : mebibytes(had),
                                directory, session),
                    facts);
    }
    const std::string what = memory < free
                                 ? fmt::format("{} of memory is available; {}", mebibytes(memory), session)
                                 : fmt::format("{} of {} are free in {}; {}", mebibytes(room),
                                               mebibytes(total), directory, session);
    if (examined.daemon.sessions > 0) {
        return fine(what + ": no room for more sessions than are open", facts);
    }
    const std::string smaller = had < plane ? "; or lower samplers.count" : "";
    if (memory < free)
        return broken(what, "end processes that use the memory, or open smaller sessions" + smaller, facts);
    const host::Mount mount =
        host::mount_of(examined.host, directory).value_or(host::Mount{directory, "", ""});
    return broken(what, how_to_enlarge(mount) + smaller, facts);
}

Finding check_memory_limit(const Examined& examined) {
    const auto limit = host::memory_limit(examined.host);
    if (!limit) return fine("no control group limits memory");
    const std::uint64_t wanted = session_bytes(examined.request);
    const std::vector<Fact> facts = {
        {"limit_bytes", number(*limit)},
        {"session_bytes", number(wanted)},
        {"daemon_may_take_bytes", number(examined.config.sessions.max_total_bytes)}};
    if (*limit < wanted) {
        return broken(
            fmt::format("the control group's limit is {} of memory; {}, charged to the daemon",
                        mebibytes(*limit), session_in_words(examined)),
            "raise the limit (Docker --memory, systemd MemoryMax=, Kubernetes resources.limits.memory)",
            facts);
    }
    std::string what = fmt::format("the control group's limit is {} of memory", mebibytes(*limit));
    if (*limit < examined.config.sessions.max_total_bytes) {
        what += fmt::format("; sessions.max_total_bytes ({}) is larger and does not keep sessions below it",
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
    if (limit == "unlimited") return fine("locked memory (memlock) is not limited");
    const std::uint64_t bytes = std::strtoull(limit.c_str(), nullptr, 10);
    const std::vector<Fact> facts = {{"memlock_bytes", number(bytes)}};
    constexpr std::uint64_t kEnoughForNccl = std::uint64_t{64} << 20U;
    if (bytes < kEnoughForNccl && !examined.host.list("/sys/class/infiniband").empty()) {
        return slower(
            fmt::format(
                "only {} KiB of memory may be locked (memlock), and NCCL locks what it sends over this "
                "host's InfiniBand",
                bytes / 1024),
            "set LimitMEMLOCK=infinity in the unit, memlock in /etc/security/limits.conf, or Docker's "
            "--ulimit memlock=-1",
            facts);
    }
    return fine(
        fmt::format("{} KiB may be locked (memlock), which is enough: only NCCL over InfiniBand needs "
                    "more",
                    bytes / 1024),
        facts);
}

Finding check_huge_pages(const Examined& examined) {
    const auto wanted = examined.config.shm.hugepages;
    const auto mount = host::mount_of(examined.host, examined.config.shm.dir);
    if (!mount) return skipped("the process's mounts cannot be read");
    const std::string huge = mount->huge();
    const std::vector<Fact> facts = {{"mount", mount->point}, {"huge", huge}};
    const bool gives = mount->has_huge_pages();
    if (wanted == config::HugePages::off) {
        return fine(gives ? mount->point + " has huge pages; shm.hugepages is off"
                          : "shm.hugepages is off: segments use ordinary pages",
                    facts);
    }
    if (gives) return fine(fmt::format("{} has huge pages (huge={})", mount->point, huge), facts);
    const std::string remedy =
        "mount -o remount,huge=advise " + mount->point + ", or set shm.hugepages to off";
    const std::string what =
        fmt::format("shm.hugepages is {}, but {} has no huge pages (huge={})",
                    wanted == config::HugePages::require ? "require" : "try", mount->point, huge);
    if (wanted == config::HugePages::require)
        return broken(what + ": no session can be opened", remedy, facts);
    return slower(what, remedy, facts);
}

}  // namespace croupier::tools::doctor

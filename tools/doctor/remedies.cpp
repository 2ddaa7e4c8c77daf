#include "tools/doctor/remedies.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "proto/default_paths.h"
#include "shm/file.h"

namespace croupier::tools::doctor {
namespace {

constexpr std::string_view kPackaged = "croupier";
constexpr const char* kUnit = "systemctl enable --now croupierd (the unit creates its folders)";

// Distributions give their members files, devices or programs of the host.
constexpr std::array<std::string_view, 22> kPrivileged = {
    "root", "wheel",   "sudo", "admin", "adm",   "disk",   "shadow",
    "kmem", "mem",     "sys",  "staff", "lxd",   "docker", "podman",
    "kvm",  "libvirt", "tty",  "input", "video", "render", "systemd-journal",
    "users"};

bool is_privileged(gid_t group) {
    const std::string name = group_name(group);
    return group == 0 || std::find(kPrivileged.begin(), kPrivileged.end(), name) != kPrivileged.end();
}

bool is_of_host(const std::string& path) {
    const proto::DefaultPaths host;
    return path == host.shm_dir || path == host.run_dir;
}

std::string primary_group(const Account& user) {
    return user.groups.empty() ? std::to_string(user.uid) : group_name(user.groups.front());
}

}  // namespace

std::string how_to_join(gid_t group, const Account& user, const Examined& examined) {
    const std::string& named = examined.config.shm.group;
    const auto configured = shm::group_id(named);
    // A group of another purpose, such as the daemon's user's own, opens what its members share.
    const bool is_for_engines =
        group_name(group) == kPackaged || (!named.empty() && configured && configured.value() == group);
    if (!is_for_engines || is_privileged(group)) return "";
    return fmt::format("usermod -aG {} {}", group_name(group), user.name);
}

std::string how_to_be_served(const Account& user) {
    return fmt::format(
        "run `croupierd` as {}: it serves that user's engines without a configuration. Or set shm.group of "
        "the "
        "host's daemon to a group made for engines (groupadd --system engines)",
        user.name);
}

std::string how_to_make(const std::string& path, const std::string& key, const Account& user,
                        const char* mode) {
    if (is_of_host(path)) {
        if (user.name == kPackaged) return "systemd-tmpfiles --create croupier.conf, then start the unit";
        if (user.uid != 0) {
            return fmt::format(
                "leave {} out, so that {}'s daemon uses its own paths; for the host's daemon: {}", key,
                user.name, kUnit);
        }
    }
    std::string command =
        fmt::format("install -d -o {} -g {} -m {} {}", user.name, primary_group(user), mode, path);
    if (own_account().uid == 0) return command;
    return fmt::format("leave {} out, so that {}'s daemon uses its own paths; or, as root: {}", key,
                       user.name, command);
}

std::string how_to_clear(const std::string& path, const std::string& key) {
    return fmt::format(
        "set {} to another path; or find out who owns {}, and remove it when no process uses it (`fuser -v "
        "{}` as root lists them)",
        key, path, path);
}

}  // namespace croupier::tools::doctor

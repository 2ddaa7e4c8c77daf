// The daemon's folders and files: its own, or another user's that were there first.
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "shm/file.h"
#include "shm/snapshot.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/remedies.h"

namespace croupier::tools::doctor {
namespace {

constexpr std::string_view kIpc = "ipc://";
constexpr unsigned kOthersWrite = 0022;

std::string owner_in_words(uid_t uid) {
    const auto account = account_of(std::to_string(uid));
    const std::string number = std::to_string(uid);
    return account && account->name != number ? fmt::format("{} (uid {})", account->name, uid)
                                              : "uid " + number;
}

// Why the daemon would refuse the file in its own one's place; empty: it is its own, or not there.
std::string squatted(const std::string& path, uid_t owner) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) return "";
    if (S_ISLNK(status.st_mode)) return path + " is a link";
    if (!S_ISREG(status.st_mode)) return path + " is not a regular file";
    if (status.st_uid != owner && status.st_uid != 0)
        return path + " belongs to " + owner_in_words(status.st_uid);
    return "";
}

// Of a folder that is not there: whether the daemon can make it, and all that is missing above it.
Finding absent_folder(const std::string& path, const std::string& key, const Account& user,
                      const std::string& how) {
    std::filesystem::path parent = std::filesystem::path(path).parent_path();
    struct stat status {};
    while (::stat(parent.c_str(), &status) != 0 && parent.has_relative_path()) parent = parent.parent_path();
    if (may(user, status, kMayWrite | kMayEnter)) return fine("the daemon will create " + path);
    return broken(fmt::format("no permission: {} {} does not exist, and {} may not create it in {}", key,
                              path, user.name, parent.string()),
                  how);
}

// Of a folder that is there: whose it is instead of the daemon's; empty: it is the daemon's, or root's.
std::string fault_of_folder(const std::string& path, const struct stat& status, const Account& user) {
    if (S_ISLNK(status.st_mode)) return path + " is a link";
    if (!S_ISDIR(status.st_mode)) return path + " is not a folder";
    if (status.st_uid != user.uid && status.st_uid != 0) {
        return fmt::format("{} belongs to {}, who can replace every file in it", path,
                           owner_in_words(status.st_uid));
    }
    return "";
}

std::string left_behind(const Examined& examined) {
    std::size_t count = 0;
    std::uint64_t bytes = 0;
    for (const auto& path : shm::segment_files(examined.config.shm.dir, examined.config.instance)) {
        const auto file = shm::open_file(path, shm::Access::read_only);
        if (!file || shm::first_locked_byte(file.value())) continue;
        ++count;
        if (const auto size = shm::file_size(file.value(), path)) bytes += size.value();
    }
    if (count == 0) return "";
    return fmt::format("{} segment{} of {} MiB that no process uses", count, count == 1 ? "" : "s",
                       bytes >> 20U);
}

// What stands where the daemon's sockets and locks go; empty: nothing that is in its way.
std::string squatted_run_file(const Examined& examined) {
    const auto& config = examined.config;
    std::string fault = squatted(config.run_dir + "/" + config.instance + ".lock", examined.daemon_user.uid);
    if (!fault.empty() || !config.control.endpoint.starts_with(kIpc)) return fault;
    const std::string path = config.control.endpoint.substr(kIpc.size());
    if (path.size() >= sizeof(sockaddr_un::sun_path)) {
        return fmt::format("{} is too long for a socket: {} bytes, at most {}", path, path.size(),
                           sizeof(sockaddr_un::sun_path) - 1);
    }
    fault = squatted(path + ".lock", examined.daemon_user.uid);
    struct stat status {};
    if (fault.empty() && ::lstat(path.c_str(), &status) == 0 && !S_ISSOCK(status.st_mode)) {
        fault = path + " is not a socket";
    }
    return fault;
}

}  // namespace

Finding check_shm_directory(const Examined& examined) {
    const std::string& path = examined.config.shm.dir;
    const Account& user = examined.daemon_user;
    const std::vector<Fact> facts = {{"folder", path}, {"daemon_user", user.name}};
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) {
        if (errno == ENOENT) {
            return absent_folder(path, "shm.dir", user, how_to_make(path, "shm.dir", user, "0711"));
        }
        return skipped(fmt::format("shm.dir {} cannot be read: {}", path, std::strerror(errno)),
                       "run it as root");
    }
    if (const std::string fault = fault_of_folder(path, status, user); !fault.empty()) {
        return broken(fmt::format("shm.dir {}; it must belong to {} and have mode 0711", fault, user.name),
                      how_to_clear(path, "shm.dir"), facts);
    }
    const auto mode = static_cast<unsigned>(status.st_mode) & 07777U;
    if ((mode & kOthersWrite) != 0) {
        return broken(fmt::format("shm.dir {} has mode {:04o}: others may write to it", path, mode),
                      fmt::format("chmod 0711 {}, and remove files in it that are not the daemon's", path),
                      facts);
    }
    if (!may(user, status, kMayWrite | kMayEnter)) {
        return broken(
            fmt::format(
                "no permission: {} may not write to shm.dir {}, which belongs to {} and has mode {:04o}",
                user.name, path, owner_in_words(status.st_uid), mode),
            fmt::format("leave shm.dir out, so that {}'s daemon uses its own folder", user.name), facts);
    }
    return fine(fmt::format("{} belongs to {}, and no other user may write to it", path,
                            owner_in_words(status.st_uid)),
                facts);
}

Finding check_shm_files(const Examined& examined) {
    const std::string& folder = examined.config.shm.dir;
    struct stat status {};
    if (::stat(folder.c_str(), &status) != 0) return fine(folder + " does not exist yet");
    if (!may(own_account(), status, kMayRead)) {
        return skipped("only root and the daemon's user may list " + folder, "run it as root");
    }
    const std::string prefix = "croupier-" + examined.config.instance;
    std::size_t count = 0;
    std::string first;
    for (const std::string& name : examined.host.list(folder)) {
        if (!name.starts_with(prefix)) continue;
        const std::string fault = squatted(fmt::format("{}/{}", folder, name), status.st_uid);
        if (!fault.empty() && count++ == 0) first = fault;
    }
    const std::vector<Fact> facts = {{"squatted", static_cast<std::int64_t>(count)}};
    if (count > 0) {
        return broken(fmt::format("squatted: {}{}; the daemon creates its own files there", first,
                                  count == 1 ? "" : fmt::format(" (and {} more)", count - 1)),
                      "find out who owns it, and remove it when no process uses it", facts);
    }
    const std::string left = examined.daemon_lives() ? "" : left_behind(examined);
    if (!left.empty()) {
        return slower("a daemon left " + left,
                      "start the daemon, which continues them, or remove them with `croupier cleanup`",
                      facts);
    }
    return fine("no other user's or dead daemon's file is in " + folder, facts);
}

Finding check_run_files(const Examined& examined) {
    const std::string& folder = examined.config.run_dir;
    const Account& user = examined.daemon_user;
    struct stat status {};
    if (::stat(folder.c_str(), &status) != 0) {
        // The unit's RuntimeDirectory=.
        if (folder == config::Config().run_dir && user.name == "croupier") {
            return fine("the unit will create " + folder);
        }
        return absent_folder(folder, "run_dir", user, how_to_make(folder, "run_dir", user, "0711"));
    }
    if (const std::string fault = fault_of_folder(folder, status, user); !fault.empty())
        return broken("run_dir " + fault, how_to_clear(folder, "run_dir"));
    // Root's folder is as root wants it: a volume that Kubernetes makes lets the pod's group write.
    if (status.st_uid == user.uid && (status.st_mode & kOthersWrite) != 0) {
        return broken(fmt::format("run_dir {} has mode {:04o}: others may write to it", folder,
                                  status.st_mode & 07777U),
                      "chmod 0711 " + folder);
    }
    if (!may(user, status, kMayWrite | kMayEnter)) {
        return broken(fmt::format("no permission: {} may not write to run_dir {}, which belongs to {}",
                                  user.name, folder, owner_in_words(status.st_uid)),
                      fmt::format("leave run_dir and control.endpoint out, so that {}'s daemon uses its own "
                                  "paths ($XDG_RUNTIME_DIR/croupier, or /tmp/croupier-UID)",
                                  user.name));
    }
    if (const std::string file = squatted_run_file(examined); !file.empty()) {
        return broken("squatted: " + file + "; the daemon creates its own there",
                      "find out who owns it, and remove it when no process uses it; or set another run_dir "
                      "and control.endpoint");
    }
    return fine("the daemon can use " + folder + " and the paths of its sockets");
}

}  // namespace croupier::tools::doctor

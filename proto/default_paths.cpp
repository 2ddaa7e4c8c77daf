#include "proto/default_paths.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

namespace croupier::proto {
namespace {

constexpr const char* kShm = "/dev/shm";
constexpr std::string_view kLongestSocket = "/croupier/control.sock";

// A folder into which only this user may put files. lstat: whoever may set a link decides where it leads.
bool is_own_folder(const std::string& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid() &&
           (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool is_there(const std::string& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0;
}

bool is_printable(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

// `su` and `sudo -E` leave another user's, and some services set one that is not there.
bool is_usable_runtime_dir(const char* path) {
    if (path == nullptr || *path != '/') return false;
    const std::string_view name(path);
    return name.size() + kLongestSocket.size() < sizeof(sockaddr_un::sun_path) && is_printable(name) &&
           is_own_folder(path);
}

std::string own_run_dir() {
    const char* runtime = std::getenv("XDG_RUNTIME_DIR");
    if (is_usable_runtime_dir(runtime)) return std::string(runtime) + "/croupier";
    return "/tmp/croupier-" + std::to_string(::geteuid());
}

std::vector<std::string> own_folders_beginning(const std::string& prefix) {
    std::vector<std::string> found;
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(kShm), &::closedir);
    while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr) {
        const std::string path = std::string(kShm) + "/" + entry->d_name;
        if (path.starts_with(prefix) && is_own_folder(path)) found.push_back(path);
    }
    std::sort(found.begin(), found.end());
    return found;
}

std::string own_shm_dir() {
    std::string usual = std::string(kShm) + "/croupier-" + std::to_string(::geteuid());
    if (is_own_folder(usual)) return usual;
    // A daemon that found the name taken goes on in the folder that it made instead.
    const auto others = own_folders_beginning(usual + "-");
    if (!others.empty()) return others.front();
    if (!is_there(usual)) return usual;
    // Nobody can take a name that nobody can guess.
    std::uint64_t number = 0;
    if (::getrandom(&number, sizeof(number), 0) != sizeof(number)) return usual;
    char text[17];
    std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(number));
    return usual + "-" + text;
}

// Whether a process listens at the socket, or may: a closed folder hides it.
bool is_served(const std::string& run_dir) {
    const std::string path = run_dir + "/control.sock";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.sun_path)) return false;
    path.copy(address.sun_path, path.size());
    const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (probe < 0) return false;
    const bool connected =
        ::connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    const int error = connected ? 0 : errno;
    ::close(probe);
    // EAGAIN: its queue of callers is full.
    return connected || error == EAGAIN || error == EACCES || error == EPERM;
}

}  // namespace

DefaultPaths own_paths() {
    return {own_run_dir(), own_shm_dir(), false};
}

DefaultPaths default_paths() {
    const DefaultPaths host;
    const bool may_serve =
        ::geteuid() == 0 || ::faccessat(AT_FDCWD, host.run_dir.c_str(), W_OK | X_OK, AT_EACCESS) == 0;
    return may_serve ? host : own_paths();
}

DefaultPaths serving_paths() {
    DefaultPaths paths = default_paths();
    // The run_dir's name in /tmp is known beforehand: another user's daemon there is not this user's.
    if (paths.is_host) return paths;
    const bool is_own = is_own_folder(paths.run_dir);
    if (is_own && is_served(paths.run_dir)) return paths;
    DefaultPaths host;
    if (is_served(host.run_dir)) return host;
    // A client tries for a while: where others can make the folder meanwhile, theirs would be what it finds.
    const std::string parent = paths.run_dir.substr(0, paths.run_dir.rfind('/'));
    return is_own || (!is_there(paths.run_dir) && is_own_folder(parent)) ? paths : host;
}

}  // namespace croupier::proto

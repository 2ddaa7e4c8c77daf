#include "daemon/supervisor/private_use.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "shm/file_identity.h"

namespace croupier::daemon {
namespace {

// Of processes, unlike the locks of segments, which belong to open files.
struct ::flock range_of(PrivateByte byte, short type) {
    struct ::flock range {};
    range.l_type = type;
    range.l_whence = SEEK_SET;
    range.l_start = static_cast<off_t>(byte);
    range.l_len = 1;
    return range;
}

// What the plugin and the daemon make in the runtime folder. Other files there stay.
constexpr std::array kRuntimeFiles = {"control.sock",   "control.sock.lock", "notify.sock",
                                      "croupierd.yaml", "croupierd.new",     "croupierd.log"};

void remove_instance_files(const std::string& directory, const std::string& instance) {
    std::error_code failure;
    const std::string prefix = "croupier-" + instance;
    for (const auto& entry : std::filesystem::directory_iterator(directory, failure)) {
        const std::string name = entry.path().filename();
        // Another instance's name may begin with this one's.
        if (!name.starts_with(prefix + ".") && !name.starts_with(prefix + "-")) continue;
        ::unlink(entry.path().c_str());
    }
    // It stays where another daemon's files lie in it.
    ::rmdir(directory.c_str());
}

}  // namespace

shm::Result<PrivateUse> PrivateUse::inherit(int descriptor) {
    if (::fcntl(descriptor, F_SETFD, FD_CLOEXEC) != 0)
        return shm::system_failure("cannot use", "descriptor " + std::to_string(descriptor), errno);
    return PrivateUse(shm::FileDescriptor(descriptor));
}

bool PrivateUse::is_held(PrivateByte byte) const {
    struct ::flock range = range_of(byte, F_WRLCK);
    return ::fcntl(file_.get(), F_GETLK, &range) == 0 && range.l_type != F_UNLCK;
}

bool PrivateUse::close() {
    struct ::flock range = range_of(PrivateByte::turn, F_WRLCK);
    if (::fcntl(file_.get(), F_SETLK, &range) != 0) return false;
    if (!has_engines()) return true;
    range.l_type = F_UNLCK;
    ::fcntl(file_.get(), F_SETLK, &range);
    return false;
}

void PrivateUse::remove_files(const std::string& shm_directory, const std::string& instance) const {
    // The configuration goes after what it tells of.
    remove_instance_files(shm_directory, instance);
    remove_runtime_files(instance);
}

void PrivateUse::remove_runtime_files(const std::string& instance) const {
    const std::filesystem::path lock = shm::path_of(file_.get());
    const std::filesystem::path folder = lock.parent_path();
    const shm::FileDescriptor opened(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    // The folder may have been removed at a logout, and be another daemon's now.
    if (!shm::is_at(file_, lock.filename(), opened.get())) return;
    for (const char* name : kRuntimeFiles) ::unlinkat(opened.get(), name, 0);
    ::unlinkat(opened.get(), (instance + ".lock").c_str(), 0);
    // Last: who finds it absent finds nothing else.
    ::unlinkat(opened.get(), lock.filename().c_str(), 0);
    ::rmdir(folder.c_str());
}

}  // namespace croupier::daemon

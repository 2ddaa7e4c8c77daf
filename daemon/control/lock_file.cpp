#include "daemon/control/lock_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "daemon/control/start_failure.h"
#include "shm/file_identity.h"

namespace croupier::daemon {

using shm::Errc;
using shm::fail;

namespace {

// Ours alone: who may open it could hold its lock, and who may put a link there could have us overwrite the
// file behind it.
shm::Result<shm::FileDescriptor> open_own(const std::string& path, const std::string& key) {
    shm::FileDescriptor file(
        ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
    if (!file.valid() && errno == ELOOP) {
        return fail(Errc::permission_denied,
                    path + " is a link; it should be a file of the daemon's own: remove it");
    }
    if (!file.valid()) return start_failure("cannot open", path, errno, key);
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) return shm::system_failure("cannot stat", path, errno);
    if (!S_ISREG(status.st_mode)) {
        return fail(Errc::bad_magic,
                    path + " is not a regular file; it should be one of the daemon's own: remove it");
    }
    if (status.st_uid != ::geteuid()) {
        return fail(Errc::permission_denied, path + " belongs to uid " + std::to_string(status.st_uid) +
                                                 "; it should be this daemon's, uid " +
                                                 std::to_string(::geteuid()) + ": remove it, or set " + key);
    }
    // An earlier version made it readable.
    if (::fchmod(file.get(), 0600) != 0) return shm::system_failure("cannot chmod", path, errno);
    return file;
}

}  // namespace

LockFile& LockFile::operator=(LockFile&& other) noexcept {
    if (this == &other) return *this;
    remove();
    file_ = std::move(other.file_);
    path_ = std::move(other.path_);
    guarded_ = std::move(other.guarded_);
    guarded_status_ = other.guarded_status_;
    return *this;
}

void LockFile::guard(std::string path) {
    guarded_ = std::move(path);
    ::lstat(guarded_.c_str(), &guarded_status_);
}

bool LockFile::has_lost_guarded() const {
    if (guarded_.empty()) return false;
    struct stat present {};
    return ::lstat(guarded_.c_str(), &present) != 0 || present.st_ino != guarded_status_.st_ino ||
           present.st_dev != guarded_status_.st_dev;
}

void LockFile::remove() {
    // At a logout the folder is removed, and another daemon may have its own files there now.
    if (!file_.valid() || !shm::is_at(file_, path_)) return;
    if (!guarded_.empty() && !has_lost_guarded()) ::unlink(guarded_.c_str());
    ::unlink(path_.c_str());
}

shm::Result<std::optional<LockFile>> LockFile::try_take(const std::string& path, const std::string& key) {
    while (true) {
        CROUPIER_TRY_VALUE(opened, open_own(path, key));
        shm::FileDescriptor file = std::move(opened);
        if (!shm::try_lock_byte(file, 0)) return std::optional<LockFile>();
        if (shm::is_at(file, path)) return std::optional(LockFile(std::move(file), path));
    }
}

}  // namespace croupier::daemon

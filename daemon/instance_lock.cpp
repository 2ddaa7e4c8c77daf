#include "daemon/instance_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "shm/plane.h"

namespace croupier::daemon {

using shm::Errc;
using shm::fail;

namespace {

// Ours alone: who may open it could hold its lock, and who may put a link there could have us overwrite the
// file behind it.
shm::Result<shm::FileDescriptor> open_lock(const std::string& path) {
    shm::FileDescriptor file(
        ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
    if (!file.valid() && errno == ELOOP) {
        return fail(Errc::permission_denied,
                    path + " is a link; it should be a file of the daemon's own: remove it");
    }
    if (!file.valid()) return shm::system_failure("cannot open", path, errno);
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) return shm::system_failure("cannot stat", path, errno);
    if (!S_ISREG(status.st_mode)) {
        return fail(Errc::bad_magic,
                    path + " is not a regular file; it should be one of the daemon's own: remove it");
    }
    if (status.st_uid != ::geteuid()) {
        return fail(Errc::permission_denied, path + " belongs to uid " + std::to_string(status.st_uid) +
                                                 "; it should be this daemon's, uid " +
                                                 std::to_string(::geteuid()) +
                                                 ": remove it, or give this one another run_dir");
    }
    // An earlier version made it readable.
    if (::fchmod(file.get(), 0600) != 0) return shm::system_failure("cannot chmod", path, errno);
    return file;
}

}  // namespace

shm::Result<shm::FileDescriptor> lock_instance(const std::string& run_dir, const std::string& instance) {
    std::error_code failure;
    std::filesystem::create_directories(run_dir, failure);
    if (failure) return shm::system_failure("cannot create run_dir", run_dir, failure.value());
    const std::string path = run_dir + "/" + instance + ".lock";
    CROUPIER_TRY_VALUE(opened, open_lock(path));
    shm::FileDescriptor file = std::move(opened);
    if (!shm::try_lock_byte(file, 0)) {
        std::array<char, 32> holder{};
        const auto length = ::pread(file.get(), holder.data(), holder.size() - 1, 0);
        const std::string pid(holder.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
        return fail(Errc::already_held, "instance " + instance + " already runs with pid " + pid +
                                            "; stop it, or give this one another `instance`");
    }
    const std::string pid = std::to_string(::getpid());
    if (::ftruncate(file.get(), 0) != 0 || ::pwrite(file.get(), pid.data(), pid.size(), 0) < 0) {
        return shm::system_failure("cannot write", path, errno);
    }
    return file;
}

namespace {

shm::Error somebody_is_left(std::uint64_t byte, const std::string& path, const std::string& instance) {
    if (byte == 0) {
        return {Errc::already_held, "a live daemon of instance " + instance + " holds " + path +
                                        ", with another run_dir; stop it, or give this one another "
                                        "`instance`"};
    }
    return {Errc::already_held, "sampler " + std::to_string(byte - 1) +
                                    " of the dead daemon does not end: it holds " + path +
                                    "; kill it and start again"};
}

}  // namespace

shm::Result<bool> await_predecessor(const std::string& shm_directory, const std::string& instance) {
    const std::string path = shm::plane_path(shm_directory, instance);
    // By its locks alone: a plane of another version has the same.
    auto file = shm::open_file(path, shm::Access::read_only);
    if (!file) return true;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (const auto byte = shm::first_locked_byte(file.value())) {
        if (std::chrono::steady_clock::now() > deadline) return somebody_is_left(*byte, path, instance);
        // A lock that the kernel drops at a process's death can only be looked at.
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

}  // namespace croupier::daemon

#include "daemon/supervisor/instance_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "daemon/control/start_failure.h"
#include "proto/default_paths.h"
#include "shm/plane.h"

namespace croupier::daemon {

using shm::Errc;
using shm::fail;

namespace {

constexpr int kMostRaces = 100;
constexpr const char* kOtherRunDir = "run_dir to a folder that this user may write to";
constexpr const char* kOwnRunDir =
    "XDG_RUNTIME_DIR to a folder of this user's own, or name other paths in run_dir and control.endpoint";

// Whoever can replace what lies in it could take the control socket's place. Root's folder is as root wants
// it: a volume that Kubernetes makes lets the pod's group write.
shm::Result<bool> check_run_dir(const std::string& path, const struct stat& status, bool is_trusted,
                                const char* remedy) {
    const auto refusal = [&](const std::string& fault) {
        return fail(Errc::permission_denied, "run_dir " + path + " " + fault +
                                                 "; it should be a folder of this user's own, uid " +
                                                 std::to_string(::geteuid()) +
                                                 ", and only this user should write to it: set " + remedy);
    };
    if (!S_ISDIR(status.st_mode)) return refusal("is no folder");
    if (!is_trusted) return refusal("belongs to uid " + std::to_string(status.st_uid));
    if (status.st_uid == ::geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return refusal("lets others write to it");
    return true;
}

// Its name is known beforehand, and anybody may make a folder in /tmp.
shm::Result<bool> prepare_own_run_dir(const std::string& path) {
    if (::mkdir(path.c_str(), 0700) == 0) return true;
    if (errno != EEXIST) return start_failure("cannot create run_dir", path, errno, kOwnRunDir);
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) return shm::system_failure("cannot stat run_dir", path, errno);
    CROUPIER_TRY(check_run_dir(path, status, status.st_uid == ::geteuid(), kOwnRunDir));
    if (::chmod(path.c_str(), 0700) != 0) return shm::system_failure("cannot chmod run_dir", path, errno);
    return true;
}

shm::Result<bool> prepare_run_dir(const std::string& path) {
    if (path == proto::own_paths().run_dir) return prepare_own_run_dir(path);
    std::error_code failure;
    std::filesystem::create_directories(path, failure);
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) {
        const int error = failure ? failure.value() : errno;
        return start_failure("cannot create run_dir", path, error, kOtherRunDir);
    }
    return check_run_dir(path, status, status.st_uid == ::geteuid() || status.st_uid == 0, kOtherRunDir);
}

std::string pid_in(const std::string& path) {
    const shm::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    std::array<char, 32> holder{};
    const auto length = ::pread(file.get(), holder.data(), holder.size() - 1, 0);
    return {holder.data(), length > 0 ? static_cast<std::size_t>(length) : 0};
}

}  // namespace

shm::Result<LockFile> lock_instance(const std::string& run_dir, const std::string& instance) {
    const std::string path = run_dir + "/" + instance + ".lock";
    CROUPIER_TRY(prepare_run_dir(run_dir));
    auto taken = LockFile::try_take(path, kOtherRunDir);
    // A daemon that ends removes the folder that was its own.
    for (int again = 0; again < kMostRaces && !taken && taken.error().code == Errc::not_found; ++again) {
        CROUPIER_TRY(prepare_run_dir(run_dir));
        taken = LockFile::try_take(path, kOtherRunDir);
    }
    if (!taken) return taken.error();
    if (!taken.value()) {
        return fail(Errc::already_held, "instance " + instance + " already runs with pid " + pid_in(path) +
                                            "; stop it, or give this one another `instance`");
    }
    LockFile lock = *std::move(taken).value();
    const std::string pid = std::to_string(::getpid());
    const int file = lock.file().get();
    if (::ftruncate(file, 0) != 0 || ::pwrite(file, pid.data(), pid.size(), 0) < 0) {
        return shm::system_failure("cannot write", path, errno);
    }
    return lock;
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

#include "shm/file.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <climits>
#include <cstdio>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace croupier::shm {
namespace {

// Past any content, so that locks and data can never be confused.
constexpr std::uint64_t kLockBase = 1ULL << 60U;
constexpr mode_t kOthersWrite = 0022;
// Between two looks at whether it is still wanted: some hundredths of a second.
constexpr std::uint64_t kAllocatedAtOnce = std::uint64_t{64} * 1024 * 1024;

struct ::flock range_of(std::uint64_t byte, short type) {
    struct ::flock range {};
    range.l_type = type;
    range.l_whence = SEEK_SET;
    range.l_start = static_cast<off_t>(kLockBase + byte);
    range.l_len = 1;
    return range;
}

// Who may open a file in it may pass through; only its owner may list it, because a segment's name is known
// to its session alone. The files' own modes say who may open them.
constexpr mode_t kDirectoryMode = 0711;
// Longer than a daemon looks for a predecessor.
constexpr std::chrono::seconds kDirectoryPatience{10};

Result<bool> give_to_group(const FileDescriptor& file, const std::string& group, const std::string& path) {
    if (group.empty()) return true;
    CROUPIER_TRY_VALUE(gid, group_id(group));
    if (::fchown(file.get(), static_cast<uid_t>(-1), gid) == 0) return true;
    return system_failure(
        "cannot give a file to group " + group + " (shm.group; this user has to be a member of it) in", path,
        errno);
}

// Of the daemon's own directory, which no mode and no group of segments would open to it.
Error directory_failure(const std::string& what, const std::string& path, int error) {
    if (error == ENOTDIR || error == ELOOP) {
        return {Errc::bad_argument, what + " " + path +
                                        ": it is a link or no folder; it should be a folder of the daemon's "
                                        "own: name the folder itself"};
    }
    if (error != EACCES && error != EPERM) return system_failure(what, path, error);
    return {Errc::permission_denied, what + " " + path +
                                         ": permission denied; set shm.dir to a folder of this user's own on "
                                         "a tmpfs, or to one that it may make"};
}

std::string octal(mode_t mode) {
    std::array<char, 8> digits{};
    std::snprintf(digits.data(), digits.size(), "%04o", mode & 07777U);
    return digits.data();
}

}  // namespace

FileDescriptor::FileDescriptor(int fd) : fd_(fd) {
    if (fd_ >= 0) close_in_children(fd_);
}

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), home_(other.home_) {}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
        close();
        fd_ = std::exchange(other.fd_, -1);
        home_ = other.home_;
    }
    return *this;
}

FileDescriptor::~FileDescriptor() {
    close();
}

void FileDescriptor::close() {
    if (fd_ < 0 || !home_.is_here()) return;
    leave_to_children(fd_);
    ::close(fd_);
}

Result<gid_t> group_id(const std::string& group) {
    gid_t number = 0;
    const auto end = std::from_chars(group.data(), group.data() + group.size(), number);
    if (end.ec == std::errc() && end.ptr == group.data() + group.size()) return number;
    std::vector<char> buffer(16384);
    ::group entry{};
    ::group* found = nullptr;
    ::getgrnam_r(group.c_str(), &entry, buffer.data(), buffer.size(), &found);
    if (found == nullptr) return fail(Errc::bad_argument, "shm.group names no group: " + group);
    return found->gr_gid;
}

Result<FileDescriptor> open_file(const std::string& path, Access access) {
    const auto name_at = path.rfind('/') + 1;
    const std::string parent = name_at > 1 ? path.substr(0, name_at - 1) : (name_at == 1 ? "/" : ".");
    FileDescriptor directory(::open(parent.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!directory.valid()) return system_failure("cannot open the directory of", path, errno);
    struct stat place {};
    if (::fstat(directory.get(), &place) != 0) return system_failure("cannot stat", parent, errno);
    if ((place.st_mode & kOthersWrite) != 0) {
        return fail(Errc::permission_denied, path + ": " + parent + " has mode " + octal(place.st_mode) +
                                                 ": others may write to it, so no file in it is believed");
    }
    // Through the descriptor: what was checked is what is used. O_NONBLOCK: a FIFO would wait for its writer.
    const int flags = (access == Access::read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    FileDescriptor file(::openat(directory.get(), path.c_str() + name_at, flags));
    if (!file.valid()) return system_failure("cannot open", path, errno);
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) return system_failure("cannot stat", path, errno);
    if (!S_ISREG(status.st_mode)) return fail(Errc::bad_magic, path + " is not a regular file");
    if (status.st_uid != place.st_uid && status.st_uid != ::geteuid() && status.st_uid != 0) {
        return fail(Errc::permission_denied, path + " belongs to uid " + std::to_string(status.st_uid) +
                                                 ", its directory to uid " + std::to_string(place.st_uid) +
                                                 ": the owner of a file of the daemon's is the directory's");
    }
    return file;
}

Result<std::uint64_t> file_size(const FileDescriptor& file, const std::string& path) {
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) return system_failure("cannot stat", path, errno);
    if (!S_ISREG(status.st_mode)) return fail(Errc::bad_magic, path + " is not a regular file");
    return static_cast<std::uint64_t>(status.st_size);
}

Result<FileDescriptor> open_again(int descriptor, Access access) {
    const std::string source = "/proc/self/fd/" + std::to_string(descriptor);
    const int flags = (access == Access::read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NONBLOCK;
    FileDescriptor file(::open(source.c_str(), flags));
    if (!file.valid()) return system_failure("cannot open again", path_of(descriptor), errno);
    return file;
}

std::string path_of(int descriptor) {
    std::array<char, PATH_MAX> text{};
    const std::string source = "/proc/self/fd/" + std::to_string(descriptor);
    const auto length = ::readlink(source.c_str(), text.data(), text.size());
    if (length <= 0) return "descriptor " + std::to_string(descriptor);
    const std::string path(text.data(), static_cast<std::size_t>(length));
    // What the kernel adds to the last path of a removed file.
    constexpr std::string_view kDeleted = " (deleted)";
    return path.ends_with(kDeleted) ? path.substr(0, path.size() - kDeleted.size()) : path;
}

bool is_removed(const FileDescriptor& file) {
    struct stat status {};
    return ::fstat(file.get(), &status) == 0 && status.st_nlink == 0;
}

bool try_lock_byte(const FileDescriptor& file, std::uint64_t byte) {
    struct ::flock range = range_of(byte, F_WRLCK);
    return ::fcntl(file.get(), F_OFD_SETLK, &range) == 0;
}

bool try_share_byte(const FileDescriptor& file, std::uint64_t byte) {
    struct ::flock range = range_of(byte, F_RDLCK);
    return ::fcntl(file.get(), F_OFD_SETLK, &range) == 0;
}

void unlock_byte(const FileDescriptor& file, std::uint64_t byte) {
    struct ::flock range = range_of(byte, F_UNLCK);
    ::fcntl(file.get(), F_OFD_SETLK, &range);
}

bool byte_is_locked(const FileDescriptor& file, std::uint64_t byte) {
    struct ::flock range = range_of(byte, F_WRLCK);
    return ::fcntl(file.get(), F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
}

std::optional<std::uint64_t> first_locked_byte(const FileDescriptor& file) {
    struct ::flock range = range_of(0, F_WRLCK);
    range.l_len = 0;  // to the end of all files
    if (::fcntl(file.get(), F_OFD_GETLK, &range) != 0 || range.l_type == F_UNLCK) return std::nullopt;
    return static_cast<std::uint64_t>(range.l_start) - kLockBase;
}

Result<Mapping> map_file(const FileDescriptor& file, std::uint64_t bytes, Access access,
                         const std::string& path) {
    const int protection = access == Access::read_only ? PROT_READ : PROT_READ | PROT_WRITE;
    void* address = ::mmap(nullptr, bytes, protection, MAP_SHARED, file.get(), 0);
    if (address == MAP_FAILED) return system_failure("cannot map", path, errno);
    return Mapping(address, static_cast<std::size_t>(bytes));
}

Result<bool> prepare_directory(const std::string& path) {
    const bool made = ::mkdir(path.c_str(), 0700) == 0;
    if (!made && errno != EEXIST) return directory_failure("cannot create shm.dir", path, errno);
    FileDescriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!directory.valid()) return directory_failure("cannot open shm.dir", path, errno);
    struct stat status {};
    if (::fstat(directory.get(), &status) != 0) return system_failure("cannot stat shm.dir", path, errno);
    if (status.st_uid != ::geteuid() && status.st_uid != 0) {
        return fail(Errc::permission_denied,
                    "shm.dir " + path + " belongs to uid " + std::to_string(status.st_uid) +
                        ", who can replace every file in it; it should be this daemon's, uid " +
                        std::to_string(::geteuid()) + ": remove it, or choose another");
    }
    if ((status.st_mode & kOthersWrite) != 0) {
        return fail(Errc::permission_denied, "shm.dir " + path + " has mode " + octal(status.st_mode) +
                                                 ": others may write to it; it should be a directory of the "
                                                 "daemon's own with mode " +
                                                 octal(kDirectoryMode) + ", such as /dev/shm/croupier");
    }
    if (status.st_uid != ::geteuid()) return true;
    // A volume that gives its group to what is made in it (Kubernetes' fsGroup) goes on doing so.
    const mode_t mode = kDirectoryMode | (status.st_mode & S_ISGID);
    if ((status.st_mode & 07777U) == mode) return true;
    if (::fchmod(directory.get(), mode) != 0) return system_failure("cannot chmod", path, errno);
    return true;
}

Result<FileDescriptor> lock_directory(const std::string& path) {
    FileDescriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!directory.valid() && errno == EACCES) {
        return fail(Errc::permission_denied,
                    "cannot open " + path + ": only the daemon's user may; run as that user or as root");
    }
    if (!directory.valid()) return system_failure("cannot open shm.dir", path, errno);
    const auto deadline = std::chrono::steady_clock::now() + kDirectoryPatience;
    while (::flock(directory.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) return system_failure("cannot lock shm.dir", path, errno);
        if (std::chrono::steady_clock::now() > deadline) {
            return fail(Errc::already_held,
                        "another process keeps " + path +
                            " locked: a daemon that starts or ends, or `croupier cleanup`; end it (`fuser` "
                            "names who has the directory open) and try again");
        }
        // The kernel tells nobody of a lock that can be had but one who waits for it without end.
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return directory;
}

Result<bool> own_file(const FileDescriptor& file, const FileOwnership& ownership, const std::string& path) {
    CROUPIER_TRY(give_to_group(file, ownership.group, path));
    if (::fchmod(file.get(), ownership.mode) != 0) return system_failure("cannot chmod in", path, errno);
    return true;
}

Result<FileDescriptor> create_unnamed(const std::string& directory, std::uint64_t bytes,
                                      const FileOwnership& ownership) {
    FileDescriptor file(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (!file.valid()) return system_failure("cannot create a file in", directory, errno);
    CROUPIER_TRY(own_file(file, ownership, directory));
    if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
        return system_failure("cannot size a file in", directory, errno);
    }
    return file;
}

int take_memory(const FileDescriptor& file, std::uint64_t at, std::uint64_t bytes) {
    while (true) {
        const int error = ::posix_fallocate(file.get(), static_cast<off_t>(at), static_cast<off_t>(bytes));
        // Older kernels give up a tmpfs file's where any signal is pending.
        if (error != EINTR) return error;
    }
}

Result<bool> allocate(const FileDescriptor& file, std::uint64_t bytes, const std::string& directory,
                      const std::stop_token& stop) {
    // posix_fallocate reserves and zeroes every page of a tmpfs file now, or says ENOSPC now.
    for (std::uint64_t done = 0; done < bytes; done += kAllocatedAtOnce) {
        if (stop.stop_requested()) return fail(Errc::draining, "the daemon stops");
        const std::uint64_t piece = std::min(kAllocatedAtOnce, bytes - done);
        if (const int error = take_memory(file, done, piece); error != 0) {
            return system_failure("cannot allocate " + std::to_string(bytes) + " bytes in", directory, error);
        }
    }
    return true;
}

Result<bool> publish_name(const FileDescriptor& file, const std::string& path) {
    const std::string source = "/proc/self/fd/" + std::to_string(file.get());
    if (::linkat(AT_FDCWD, source.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0) return true;
    if (errno == EEXIST) {
        return fail(Errc::already_held,
                    path + " exists already; `croupier cleanup` removes files of the dead");
    }
    return system_failure("cannot link", path, errno);
}

}  // namespace croupier::shm

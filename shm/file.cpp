#include "shm/file.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <utility>
#include <vector>

namespace croupier::shm {
namespace {

// Past any content, so that locks and data can never be confused.
constexpr std::uint64_t kLockBase = 1ULL << 60U;

struct ::flock range_of(std::uint64_t byte, short type) {
    struct ::flock range {};
    range.l_type = type;
    range.l_whence = SEEK_SET;
    range.l_start = static_cast<off_t>(kLockBase + byte);
    range.l_len = 1;
    return range;
}

// What Boost.Interprocess maps: it needs a handle and a mode, we need our own locks on the descriptor.
class MappableFile {
  public:
    MappableFile(int fd, boost::interprocess::mode_t mode) : fd_(fd), mode_(mode) {}
    boost::interprocess::mapping_handle_t get_mapping_handle() const { return {fd_, false}; }
    boost::interprocess::mode_t get_mode() const { return mode_; }

  private:
    int fd_;
    boost::interprocess::mode_t mode_;
};

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
        if (fd_ >= 0) ::close(fd_);
        fd_ = other.release();
    }
    return *this;
}

FileDescriptor::~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
}

int FileDescriptor::release() {
    return std::exchange(fd_, -1);
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
    const int flags = (access == Access::read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOFOLLOW;
    FileDescriptor file(::open(path.c_str(), flags));
    if (!file.valid()) return system_failure("cannot open", path, errno);
    return file;
}

Result<std::uint64_t> file_size(const FileDescriptor& file, const std::string& path) {
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) return system_failure("cannot stat", path, errno);
    if (!S_ISREG(status.st_mode)) return fail(Errc::bad_magic, path + " is not a regular file");
    return static_cast<std::uint64_t>(status.st_size);
}

bool try_lock_byte(const FileDescriptor& file, std::uint64_t byte) {
    struct ::flock range = range_of(byte, F_WRLCK);
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
    const auto mode =
        access == Access::read_only ? boost::interprocess::read_only : boost::interprocess::read_write;
    try {
        return Mapping(MappableFile(file.get(), mode), mode, 0, static_cast<std::size_t>(bytes));
    } catch (const boost::interprocess::interprocess_exception& error) {
        return system_failure("cannot map", path, error.get_native_error());
    }
}

Result<FileDescriptor> create_unnamed(const std::string& directory, std::uint64_t bytes,
                                      const FileOwnership& ownership) {
    FileDescriptor file(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (!file.valid()) return system_failure("cannot create a file in", directory, errno);
    if (!ownership.group.empty()) {
        auto gid = group_id(ownership.group);
        if (!gid) return gid.error();
        if (::fchown(file.get(), static_cast<uid_t>(-1), gid.value()) != 0) {
            return system_failure("cannot give a file to group " + ownership.group +
                                      " (shm.group; this user has to be a member of it) in",
                                  directory, errno);
        }
    }
    if (::fchmod(file.get(), ownership.mode) != 0) return system_failure("cannot chmod in", directory, errno);
    if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
        return system_failure("cannot size a file in", directory, errno);
    }
    return file;
}

Result<bool> allocate(const FileDescriptor& file, std::uint64_t bytes, const std::string& directory) {
    // posix_fallocate reserves and zeroes every page of a tmpfs file now, or says ENOSPC now.
    const int error = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes));
    if (error == 0) return true;
    return system_failure("cannot allocate " + std::to_string(bytes) + " bytes in", directory, error);
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

#include "shm/file.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
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

Result<gid_t> group_id(const std::string& group) {
    std::vector<char> buffer(16384);
    ::group entry{};
    ::group* found = nullptr;
    ::getgrnam_r(group.c_str(), &entry, buffer.data(), buffer.size(), &found);
    if (found == nullptr) return fail(Errc::bad_argument, "shm.group names no group: " + group);
    return found->gr_gid;
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

Mapping::Mapping(boost::interprocess::mapped_region region)
    : region_(std::make_unique<boost::interprocess::mapped_region>(std::move(region))) {
    ::madvise(get_address(), get_size(), MADV_DONTFORK);
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
    if (this != &other) {
        unmap();
        region_ = std::move(other.region_);
        home_ = other.home_;
    }
    return *this;
}

Mapping::~Mapping() {
    unmap();
}

void Mapping::unmap() {
    // In a forked child the addresses may be another mapping's by now.
    if (!home_.is_here()) (void)region_.release();
    region_.reset();
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

Result<Mapping> map_file(const FileDescriptor& file, std::uint64_t bytes, Access access,
                         const std::string& path) {
    const auto mode =
        access == Access::read_only ? boost::interprocess::read_only : boost::interprocess::read_write;
    try {
        return Mapping(boost::interprocess::mapped_region(MappableFile(file.get(), mode), mode, 0,
                                                          static_cast<std::size_t>(bytes)));
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
            return system_failure("cannot give a file to group " + ownership.group + " in", directory, errno);
        }
    }
    if (::fchmod(file.get(), ownership.mode) != 0) return system_failure("cannot chmod in", directory, errno);
    // posix_fallocate reserves and zeroes every page of a tmpfs file now, or says ENOSPC now.
    const int error = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes));
    if (error != 0) {
        return system_failure("cannot allocate " + std::to_string(bytes) + " bytes in", directory, error);
    }
    return file;
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

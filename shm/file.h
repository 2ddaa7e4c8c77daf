// Files in shared memory: descriptors, liveness locks and mappings.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>

#include "shm/error.h"
#include "shm/home_process.h"
#include "shm/mapping.h"

namespace croupier::shm {

// Closed in every forked child, where the number may then be another file's: there it is not valid.
class FileDescriptor {
  public:
    FileDescriptor() = default;
    explicit FileDescriptor(int fd);
    FileDescriptor(FileDescriptor&& other) noexcept;
    FileDescriptor& operator=(FileDescriptor&& other) noexcept;
    FileDescriptor(const FileDescriptor&) = delete;
    FileDescriptor& operator=(const FileDescriptor&) = delete;
    ~FileDescriptor();

    int get() const { return home_.is_here() ? fd_ : -1; }
    bool valid() const { return get() >= 0; }

  private:
    void close();

    int fd_ = -1;
    HomeProcess home_;
};

enum class Access { read_only, read_write };

// A regular file, of the same owner as its directory or of this process's, in a directory that nobody else
// may write to. Opening never blocks and follows no link.
Result<FileDescriptor> open_file(const std::string& path, Access access);
Result<std::uint64_t> file_size(const FileDescriptor& file, const std::string& path);
// The same file, open once more and so with locks of its own; needs no name of the file, which may be
// removed.
Result<FileDescriptor> open_again(int descriptor, Access access);
// Where an open file lies or lay: of a removed one, its last path.
std::string path_of(int descriptor);
// The file has no name any more: processes that have it open keep it, and nobody else can open it.
bool is_removed(const FileDescriptor& file);

// A byte of a file, locked by its open file description: the kernel drops the lock when the last process
// that holds the description dies, at whatever instruction. Lock bytes lie far past the mapped content.
bool try_lock_byte(const FileDescriptor& file, std::uint64_t byte);
// Beside others who share it.
bool try_share_byte(const FileDescriptor& file, std::uint64_t byte);
void unlock_byte(const FileDescriptor& file, std::uint64_t byte);
bool byte_is_locked(const FileDescriptor& file, std::uint64_t byte);
// Of all lock bytes, whatever they stand for: what they are does not depend on the layout's version.
std::optional<std::uint64_t> first_locked_byte(const FileDescriptor& file);

Result<Mapping> map_file(const FileDescriptor& file, std::uint64_t bytes, Access access,
                         const std::string& path);

struct FileOwnership {
    mode_t mode = 0660;
    std::string group;  // a name or a number; empty: the process's own
};

// The daemon's own directory, mode 0711: made where it is missing, refused where somebody else could put
// files into it. Several instances may share it.
Result<bool> prepare_directory(const std::string& path);
// Held while somebody looks at who lives in the directory and then makes or removes files there: only its
// owner may open it, so nobody else can hold the lock. The descriptor holds it.
Result<FileDescriptor> lock_directory(const std::string& path);
Result<bool> own_file(const FileDescriptor& file, const FileOwnership& ownership, const std::string& path);

Result<gid_t> group_id(const std::string& group);

// An unnamed file in `directory`, of which no page is allocated yet.
Result<FileDescriptor> create_unnamed(const std::string& directory, std::uint64_t bytes,
                                      const FileOwnership& ownership);
// posix_fallocate(), which no signal ends early: 0 or its error.
int take_memory(const FileDescriptor& file, std::uint64_t at, std::uint64_t bytes);
// Its memory allocated and touched, so that no later store can fail (a full tmpfs would otherwise be a SIGBUS
// in the middle of a step).
Result<bool> allocate(const FileDescriptor& file, std::uint64_t bytes, const std::string& directory,
                      const std::stop_token& stop = {});
// Gives the finished file its name: nobody can open a half-made one. Fails if the name exists.
Result<bool> publish_name(const FileDescriptor& file, const std::string& path);

}  // namespace croupier::shm

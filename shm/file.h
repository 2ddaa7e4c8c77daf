// Files in shared memory: descriptors, liveness locks and mappings.
#pragma once

#include <sys/types.h>

#include <boost/interprocess/mapped_region.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "shm/error.h"
#include "shm/home_process.h"

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

Result<FileDescriptor> open_file(const std::string& path, Access access);
Result<std::uint64_t> file_size(const FileDescriptor& file, const std::string& path);

// A byte of a file, locked by its open file description: the kernel drops the lock when the last process
// that holds the description dies, at whatever instruction. Lock bytes lie far past the mapped content.
bool try_lock_byte(const FileDescriptor& file, std::uint64_t byte);
void unlock_byte(const FileDescriptor& file, std::uint64_t byte);
bool byte_is_locked(const FileDescriptor& file, std::uint64_t byte);

// Not inherited by forked children.
class Mapping {
  public:
    Mapping() = default;
    explicit Mapping(boost::interprocess::mapped_region region);
    Mapping(Mapping&&) noexcept = default;
    Mapping& operator=(Mapping&& other) noexcept;
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    ~Mapping();

    void* get_address() const { return region_->get_address(); }
    std::size_t get_size() const { return region_->get_size(); }

  private:
    void unmap();

    std::unique_ptr<boost::interprocess::mapped_region> region_;
    HomeProcess home_;
};

Result<Mapping> map_file(const FileDescriptor& file, std::uint64_t bytes, Access access,
                         const std::string& path);

struct FileOwnership {
    mode_t mode = 0660;
    std::string group;  // empty: the process's own
};

// An unnamed file in `directory`, its memory allocated and touched, so that no later store can fail
// (a full tmpfs would otherwise be a SIGBUS in the middle of a step).
Result<FileDescriptor> create_unnamed(const std::string& directory, std::uint64_t bytes,
                                      const FileOwnership& ownership);
// Gives the finished file its name: nobody can open a half-made one. Fails if the name exists.
Result<bool> publish_name(const FileDescriptor& file, const std::string& path);

}  // namespace croupier::shm

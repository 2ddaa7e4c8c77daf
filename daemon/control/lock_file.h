// A file that a process holds locked for as long as it lives: others see by it that the process is there.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <utility>

#include "shm/file.h"

namespace croupier::daemon {

class LockFile {
  public:
    LockFile() = default;
    LockFile(LockFile&& other) noexcept = default;
    LockFile& operator=(LockFile&& other) noexcept;
    LockFile(const LockFile&) = delete;
    LockFile& operator=(const LockFile&) = delete;
    // The file goes with the lock. A process that has just opened it sees that it lost its name.
    ~LockFile() { remove(); }

    // Nothing: another process holds it. Refused where the file is another user's, or no file. `key`: what
    // to set where it cannot be made.
    static shm::Result<std::optional<LockFile>> try_take(const std::string& path, const std::string& key);

    const shm::FileDescriptor& file() const { return file_; }
    // What lies at `path` now goes with the lock, before it.
    void guard(std::string path);
    // What it guards was removed, or another file lies in its place.
    bool has_lost_guarded() const;

  private:
    LockFile(shm::FileDescriptor file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
    void remove();

    shm::FileDescriptor file_;
    std::string path_;
    std::string guarded_;  // empty: nothing
    struct stat guarded_status_ {};
};

}  // namespace croupier::daemon

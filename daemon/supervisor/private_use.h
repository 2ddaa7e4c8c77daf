// Whether engines still use a private daemon, which one of them has started: told by record locks on one file
// in its runtime folder. The kernel drops such a lock with the process that took it, however that ended, and
// a forked child has none of its parent's.
#pragma once

#include <string>

#include "shm/file.h"

namespace croupier::daemon {

// The bytes, as croupier/serving/private_daemon.py has them. Who joins, starts the daemon or ends it
// takes the turn for that long; each engine shares `engines` while it lives; the daemon holds `daemon`, taken
// before it was executed.
enum class PrivateByte : int { turn = 0, engines = 1, daemon = 2 };

class PrivateUse {
  public:
    // Its process must open and close no other descriptor of the file: that would drop its locks.
    static shm::Result<PrivateUse> inherit(int descriptor);

    bool has_engines() const { return is_held(PrivateByte::engines); }
    // By another process.
    bool has_daemon() const { return is_held(PrivateByte::daemon); }
    // True: no engine is left, and none joins before this process ends.
    bool close();
    // After close(): all of the instance's files in `shm_directory`, and those in the runtime folder.
    void remove_files(const std::string& shm_directory, const std::string& instance) const;

  private:
    explicit PrivateUse(shm::FileDescriptor file) : file_(std::move(file)) {}
    bool is_held(PrivateByte byte) const;
    void remove_runtime_files(const std::string& instance) const;

    shm::FileDescriptor file_;
};

}  // namespace croupier::daemon

// What a forked child must not keep. A lock belongs to an open file, which a fork shares: a child that kept
// it would hold its parent's role, and with the mapping its memory, after the parent's death.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "shm/error.h"

namespace croupier::shm {

// From now on every forked child closes it. What is started by exec or posix_spawn is not such a child.
void close_in_children(int fd);
// Before it is closed here, or handed to somebody else.
void leave_to_children(int fd);

// Where an object was made. A copy keeps its original's.
class HomeProcess {
  public:
    HomeProcess();

    bool is_here() const;
    // `what`: the object, as the error calls it.
    Result<bool> check(const char* what) const;

  private:
    std::uint64_t generation_;
    pid_t pid_;
};

}  // namespace croupier::shm

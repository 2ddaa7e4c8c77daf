// A daemon whose sockets and files every user may reach, so that only what it checks itself stands between
// them.
#pragma once

#include <sys/stat.h>

#include "testing/daemon_process.h"

namespace croupier::testing {

constexpr const char* kForAllUsers = "shm: {dir: \"@shm@\", mode: \"0666\"}";

// After each start, too: it makes its sockets anew.
inline void let_all_users_in(const DaemonProcess& daemon) {
    ::chmod(daemon.directory().c_str(), 0755);
    for (const char* socket : {"/control.sock", "/decisions.sock"})
        ::chmod((daemon.directory() + socket).c_str(), 0666);
}

}  // namespace croupier::testing

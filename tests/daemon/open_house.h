// A daemon whose sockets and files every user may reach, so that only what it checks itself stands between
// them.
#pragma once

#include <sys/stat.h>

#include "testing/daemon_process.h"

namespace croupier::testing {

constexpr const char* kForAllUsers = "shm: {dir: \"@shm@\", mode: \"0666\"}";

// Also needed after each start, which makes a new socket.
inline void let_all_users_in(const DaemonProcess& daemon) {
    ::chmod(daemon.directory().c_str(), 0755);
    ::chmod((daemon.directory() + "/control.sock").c_str(), 0666);
}

}  // namespace croupier::testing

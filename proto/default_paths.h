// Where a daemon and the programs that look for it meet when nobody names a path: the host's folders, or a
// user's own.
#pragma once

#include <string>

namespace croupier::proto {

// At first the host's.
struct DefaultPaths {
    std::string run_dir = "/run/croupier";
    std::string shm_dir = "/dev/shm/croupier";
    bool is_host = true;  // false: this user's own

    std::string control_endpoint() const { return "ipc://" + run_dir + "/control.sock"; }
};

// $XDG_RUNTIME_DIR/croupier, or /tmp/croupier-UID where there is no such folder of this user's; and a folder
// of this user's in /dev/shm. Where another user took the name /dev/shm/croupier-UID, it has a longer one.
DefaultPaths own_paths();

// Those of a daemon that this user starts: the host's for root and for a user who may write to /run/croupier,
// such as the unit's; else the user's own.
DefaultPaths default_paths();

// Those of the daemon that serves this user's engines: default_paths(), unless only the host's daemon runs.
DefaultPaths serving_paths();

}  // namespace croupier::proto

// What has to exist before the first request is answered.
#pragma once

#include <optional>

#include "config/config.h"
#include "daemon/control/endpoint.h"
#include "daemon/supervisor/private_use.h"
#include "shm/file.h"
#include "shm/plane.h"

namespace croupier::daemon {

// In the order in which it is made.
struct Foundation {
    LockFile lock;
    shm::FileDescriptor signals;
    shm::FileDescriptor timer;
    shm::FileDescriptor step_event;
    shm::FileDescriptor made_event;  // of what is made beside the loop
    std::optional<PrivateUse> use;   // of a private daemon
    std::optional<shm::Plane> plane;
    CurveKeys keys;
    LockFile path;  // of the control socket, ours alone
};

// In force from now on, by the limit of open files that this process has.
void bound_connections(const config::Config& config);
shm::Result<bool> acquire_resources(const config::Config& config, Foundation& made);
// Where they are still this daemon's: the plane, and a folder that is this user's own, when it is empty.
void remove_own_files(const config::Config& config, const shm::Plane& plane);

}  // namespace croupier::daemon

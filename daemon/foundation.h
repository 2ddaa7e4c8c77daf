// What has to exist before the first request is answered.
#pragma once

#include <array>
#include <optional>

#include "config/config.h"
#include "daemon/endpoint.h"
#include "shm/bell.h"
#include "shm/file.h"
#include "shm/plane.h"

namespace croupier::daemon {

// In the order in which it is made.
struct Foundation {
    shm::FileDescriptor lock;
    shm::FileDescriptor signals;
    shm::FileDescriptor timer;
    shm::FileDescriptor step_event;
    shm::FileDescriptor made_event;  // of what is made beside the loop
    std::optional<shm::Bell> bell;
    std::optional<shm::Plane> plane;
    CurveKeys keys;
    std::array<shm::FileDescriptor, 2> paths;  // of the sockets, ours alone
};

shm::Result<bool> acquire_resources(const config::Config& config, Foundation& made);
// The plane, and the bell where no session needs it.
void remove_own_files(const config::Config& config);

}  // namespace croupier::daemon

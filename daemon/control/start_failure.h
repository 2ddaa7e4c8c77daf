// Why a daemon cannot start, with the keys of its configuration that would help.
#pragma once

#include <string>

#include "shm/error.h"

namespace croupier::daemon {

// A failed system call on a path that the configuration names; `key`: which key, or keys, to set.
inline shm::Error start_failure(const std::string& what, const std::string& path, int error,
                                const std::string& key) {
    if (error != EACCES && error != EPERM) return shm::system_failure(what, path, error);
    return {shm::Errc::permission_denied, what + " " + path + ": permission denied; set " + key};
}

}  // namespace croupier::daemon

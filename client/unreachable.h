// Why an endpoint does not answer, and what to do about it.
#pragma once

#include <optional>
#include <string>

#include "shm/error.h"

namespace croupier::client {

// Known before anything is sent, and not cured by waiting: the socket's permissions.
std::optional<shm::Error> endpoint_forbidden(const std::string& endpoint);
// After a request to it has found no answer for `waited_ms`.
shm::Error endpoint_silent(const std::string& endpoint, long waited_ms);

}  // namespace croupier::client

// Errors for an endpoint that does not answer: the reason and the remedy.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "shm/error.h"

namespace croupier::client {

// The socket's permissions, which can be checked before sending and do not change by waiting.
std::optional<shm::Error> endpoint_forbidden(const std::string& endpoint);
// The error for a request that had no answer for `waited_ms`.
shm::Error endpoint_silent(const std::string& endpoint, long waited_ms);

// The error for a request of so many bytes, during which the daemon ended the connection.
shm::Error request_cut_off(const std::string& endpoint, std::size_t bytes);

}  // namespace croupier::client

// A captured decision as the request that `croupier explain` reads.
#pragma once

#include <cstddef>
#include <span>

#include "explain/fields.h"
#include "proto/capture.h"
#include "shm/error.h"

namespace croupier::daemon {

// The head of a file that a sampler left, whose counts fit its size.
shm::Result<proto::CapturedHead> check_captured(std::span<const std::byte> captured);

// Of a file that was checked. Throws explain::RequestError for a request that no notation holds, as lists
// that contradict themselves: its decision is an error too.
explain::Json request_of(const proto::CapturedHead& head, std::span<const std::byte> captured);

}  // namespace croupier::daemon

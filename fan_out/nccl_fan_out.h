// The fan-out over NCCL: announced over ZMQ, broadcast from GPU to GPU.
#pragma once

#include "fan_out/fan_out.h"

namespace croupier::fan_out {

// Fails with a message if this build or this host has no NCCL.
shm::Result<std::unique_ptr<FanOut>> open_nccl_fan_out(const FanOutOptions& options);

}  // namespace croupier::fan_out

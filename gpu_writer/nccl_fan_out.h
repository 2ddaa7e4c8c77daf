// The fan-out over NCCL: announced over ZMQ, broadcast from GPU to GPU.
#pragma once

#include "gpu_writer/fan_out.h"

namespace croupier::gpu_writer {

// Without NCCL in this build or on this host: refused, with a text that says so.
shm::Result<std::unique_ptr<FanOut>> open_nccl_fan_out(const FanOutOptions& options);

}  // namespace croupier::gpu_writer

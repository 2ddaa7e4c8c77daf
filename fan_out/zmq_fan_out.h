// The fan-out over ZMQ: a ROUTER at the root, a DEALER at each other member. Not PUB and SUB, which drop what
// a slow or late reader cannot take.
#pragma once

#include "fan_out/fan_out.h"

namespace croupier::fan_out {

shm::Result<std::unique_ptr<FanOut>> open_zmq_fan_out(const FanOutOptions& options);

// The two ends, which open_zmq_fan_out() chooses between.
shm::Result<std::unique_ptr<FanOut>> open_zmq_root(const FanOutOptions& options);
shm::Result<std::unique_ptr<FanOut>> open_zmq_member(const FanOutOptions& options);

}  // namespace croupier::fan_out

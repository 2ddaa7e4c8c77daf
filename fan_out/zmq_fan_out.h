// The fan-out over ZMQ: a ROUTER at the root, a DEALER at each other member. PUB and SUB would drop messages
// for a slow or late reader.
#pragma once

#include "fan_out/fan_out.h"

namespace croupier::fan_out {

shm::Result<std::unique_ptr<FanOut>> open_zmq_fan_out(const FanOutOptions& options);

// open_zmq_fan_out() calls one of the two.
shm::Result<std::unique_ptr<FanOut>> open_zmq_root(const FanOutOptions& options);
shm::Result<std::unique_ptr<FanOut>> open_zmq_member(const FanOutOptions& options);

}  // namespace croupier::fan_out

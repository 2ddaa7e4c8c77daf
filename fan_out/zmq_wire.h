// What both ends of a ZMQ fan-out do alike: a socket with keys and heartbeats, frames, a wait.
#pragma once

#include <zmq.hpp>

#include "fan_out/fan_out.h"
#include "proto/fan_out_frame.h"

namespace croupier::fan_out {

using Clock = std::chrono::steady_clock;

shm::Result<zmq::socket_t> make_fan_out_socket(zmq::context_t& context, zmq::socket_type type,
                                               const FanOutOptions& options);

// Whether one of two sockets has something to read, within `timeout`. A signal counts as nothing.
struct Readable {
    bool first = false;
    bool second = false;
};
Readable wait_for_either(zmq::socket_t& first, zmq::socket_t& second, std::chrono::milliseconds timeout);

std::chrono::milliseconds time_left(Clock::time_point deadline);

}  // namespace croupier::fan_out

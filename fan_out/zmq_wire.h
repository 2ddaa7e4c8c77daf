// What both ends of a ZMQ fan-out share: a socket with keys and heartbeats, and a wait.
#pragma once

#include <string>
#include <zmq.hpp>

#include "fan_out/fan_out.h"
#include "proto/fan_out_frame.h"

namespace croupier::fan_out {

using Clock = std::chrono::steady_clock;

shm::Result<zmq::socket_t> make_fan_out_socket(zmq::context_t& context, zmq::socket_type type,
                                               const FanOutOptions& options);

// Waits until one of two sockets or the descriptor `wake` (-1: none) is readable. A signal also ends the
// wait.
struct Readable {
    bool first = false;
    bool second = false;
    bool wake = false;
};
Readable wait_for_either(zmq::socket_t& first, zmq::socket_t& second, std::chrono::milliseconds timeout,
                         int wake = -1);

std::chrono::milliseconds time_left(Clock::time_point deadline);

}  // namespace croupier::fan_out

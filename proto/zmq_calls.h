// Calls of libzmq that go on after a signal: it gives up a call when the process handles one, also a call
// that does not wait. Waits are left to zmq::poll, whose callers look at the time.
#pragma once

#include <cerrno>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>
#include <zmq.hpp>

namespace croupier::proto {

template <typename Call>
auto uninterrupted(Call&& call) {
    while (true) {
        try {
            return call();
        } catch (const zmq::error_t& error) {
            if (error.num() != EINTR) throw;
        }
    }
}

// Calls zmq_socket_monitor(), and throws if it fails. The monitor has to end before its reader is destroyed:
// libzmq waits for another one, and does nothing else for all connections of the context.
zmq::socket_t monitor_of(zmq::context_t& context, zmq::socket_t& socket, const std::string& place,
                         int events);

// Reads the number of the next event from such a reader. Nothing: no event has come.
std::optional<std::uint16_t> next_event(zmq::socket_t& reader);

// False: there is no room, and nothing was sent.
bool send_frames(zmq::socket_t& socket, std::span<const zmq::const_buffer> frames, zmq::send_flags flags);
// Empty: no message has come.
std::vector<zmq::message_t> receive_frames(zmq::socket_t& socket, zmq::recv_flags flags);

}  // namespace croupier::proto

#include "fan_out/zmq_wire.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "proto/curve.h"

namespace croupier::fan_out {
namespace {

// A process that dies closes its connection, which is noticed at once. A host that vanishes does not: its
// silence is noticed after this long, by libzmq's own thread, whatever the caller is doing.
constexpr int kHeartbeatMs = 1000;
constexpr int kSilenceMs = 3000;
// What was sent just before the group is left still goes out, unless its reader is gone.
constexpr int kLingerMs = 1000;

shm::Result<bool> use_curve(zmq::socket_t& socket, zmq::socket_type type, const FanOutOptions& options) {
    try {
        if (type == zmq::socket_type::router) {
            proto::serve_curve(socket, options.keys.own_secret);
        } else {
            proto::join_curve(socket, options.keys.peer_public, options.keys.own_public,
                              options.keys.own_secret);
        }
    } catch (const zmq::error_t& error) {
        return shm::fail(shm::Errc::bad_argument, proto::not_a_key(options.endpoint, error));
    }
    return true;
}

}  // namespace

shm::Result<zmq::socket_t> make_fan_out_socket(zmq::context_t& context, zmq::socket_type type,
                                               const FanOutOptions& options) {
    zmq::socket_t socket(context, type);
    socket.set(zmq::sockopt::linger, kLingerMs);
    socket.set(zmq::sockopt::heartbeat_ivl, kHeartbeatMs);
    socket.set(zmq::sockopt::heartbeat_timeout, kSilenceMs);
    socket.set(zmq::sockopt::maxmsgsize,
               static_cast<std::int64_t>(sizeof(proto::FanOutHeader) + proto::kMaxRecordBytes));
    if (options.endpoint.starts_with("tcp://")) {
        CROUPIER_TRY(use_curve(socket, type, options));
    }
    return socket;
}

Readable wait_for_either(zmq::socket_t& first, zmq::socket_t& second, std::chrono::milliseconds timeout) {
    std::array<zmq::pollitem_t, 2> items = {
        {{first.handle(), 0, ZMQ_POLLIN, 0}, {second.handle(), 0, ZMQ_POLLIN, 0}}};
    try {
        zmq::poll(items.data(), items.size(), timeout);
    } catch (const zmq::error_t& error) {
        if (error.num() != EINTR) throw;
        return {};
    }
    return {(items[0].revents & ZMQ_POLLIN) != 0, (items[1].revents & ZMQ_POLLIN) != 0};
}

std::chrono::milliseconds time_left(Clock::time_point deadline) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    return std::max(left, std::chrono::milliseconds::zero());
}

}  // namespace croupier::fan_out

#include "fan_out/zmq_wire.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "proto/curve.h"

namespace croupier::fan_out {
namespace {

// A process that dies closes its connection, which its peer sees at once. A host that vanishes does not:
// libzmq's own thread notices its silence after this long, whatever the caller is doing. A link may be cut
// for 6 seconds: TCP sends again 3, 6.4 and 12.8 seconds after the first time, and nothing in between.
constexpr int kHeartbeatMs = 1000;
constexpr int kSilenceMs = 10000;
// Messages that were sent just before a member leaves still go out, unless their reader is gone.
constexpr int kLingerMs = 1000;

shm::Result<bool> use_curve(zmq::socket_t& socket, zmq::socket_type type, const FanOutOptions& options) {
    try {
        if (type == zmq::socket_type::router) {
            proto::serve_tcp(socket, options.endpoint, options.keys.own_secret);
        } else {
            proto::join_tcp(socket, options.endpoint, options.keys.peer_public, options.keys.own_public,
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
               static_cast<std::int64_t>(sizeof(proto::FanOutHeader) + proto::kMaxAnswerBytes));
    if (options.endpoint.starts_with("tcp://")) {
        CROUPIER_TRY(use_curve(socket, type, options));
    }
    return socket;
}

Readable wait_for_either(zmq::socket_t& first, zmq::socket_t& second, std::chrono::milliseconds timeout,
                         int wake) {
    std::array<zmq::pollitem_t, 3> items = {{{first.handle(), 0, ZMQ_POLLIN, 0},
                                             {second.handle(), 0, ZMQ_POLLIN, 0},
                                             {nullptr, wake, ZMQ_POLLIN, 0}}};
    try {
        zmq::poll(items.data(), wake < 0 ? 2 : 3, timeout);
    } catch (const zmq::error_t& error) {
        if (error.num() != EINTR) throw;
        return {};
    }
    const auto readable = [&](std::size_t item) { return (items[item].revents & ZMQ_POLLIN) != 0; };
    return {readable(0), readable(1), readable(2)};
}

std::chrono::milliseconds time_left(Clock::time_point deadline) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    return std::max(left, std::chrono::milliseconds::zero());
}

}  // namespace croupier::fan_out

#include "client/dealer.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <utility>

#include "proto/curve.h"
#include "proto/endpoint.h"
#include "proto/zmq_calls.h"

namespace croupier::client {
namespace {

// A daemon that systemd restarts is back within milliseconds. Reconnects soon, but not in a busy loop.
constexpr int kReconnectMs = 20;
constexpr int kReconnectMaxMs = 500;

shm::Result<bool> use_curve(zmq::socket_t& socket, const std::string& endpoint, const CurveKeys& keys) {
    const auto fault = proto::key_length_fault(endpoint, {{"server_key", keys.server},
                                                          {"client_public_key", keys.client_public},
                                                          {"client_secret_key", keys.client_secret}});
    if (fault) return shm::fail(shm::Errc::bad_argument, *fault);
    try {
        proto::join_tcp(socket, endpoint, keys.server, keys.client_public, keys.client_secret);
    } catch (const zmq::error_t& error) {
        return shm::fail(shm::Errc::bad_argument, proto::not_a_key(endpoint, error));
    }
    return true;
}

zmq::socket_t watch_of(zmq::socket_t& socket, zmq::context_t& context) {
    static std::atomic<std::uint64_t> number{0};
    return proto::monitor_of(context, socket, "inproc://watch-" + std::to_string(++number),
                             ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED);
}

}  // namespace

shm::Result<Dealer> Dealer::connect(zmq::context_t& context, const std::string& endpoint,
                                    const CurveKeys& keys, Watch watch) {
    if (const auto fault = proto::endpoint_fault(endpoint)) return shm::fail(shm::Errc::bad_argument, *fault);
    zmq::socket_t socket(context, zmq::socket_type::dealer);
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::reconnect_ivl, kReconnectMs);
    socket.set(zmq::sockopt::reconnect_ivl_max, kReconnectMaxMs);
    if (endpoint.starts_with("tcp://")) {
        CROUPIER_TRY(use_curve(socket, endpoint, keys));
    }
    // Before it connects: a handshake may be over before connect() returns.
    zmq::socket_t monitor = watch == Watch::yes ? watch_of(socket, context) : zmq::socket_t();
    Dealer dealer(std::move(socket), std::move(monitor), endpoint);
    try {
        proto::uninterrupted([&] { dealer.socket_.connect(endpoint); });
    } catch (const zmq::error_t& error) {
        return shm::fail(shm::Errc::bad_argument, "cannot connect to endpoint " + endpoint + ": " +
                                                      error.what() +
                                                      "; it should be ipc://<path> or tcp://<host>:<port>");
    }
    return dealer;
}

// The monitor ends before its reader is destroyed: libzmq would wait for another one, and do nothing else for
// all connections of the context.
Dealer::~Dealer() {
    if (monitor_) zmq_socket_monitor(socket_.handle(), nullptr, 0);
}

void Dealer::send(const std::uint8_t* bytes, std::size_t size) {
    // If the queue is full, the daemon does not read: the caller sees a timeout.
    proto::uninterrupted([&] { return socket_.send(zmq::buffer(bytes, size), zmq::send_flags::dontwait); });
}

bool Dealer::was_cut_off() {
    bool was = false;
    while (monitor_) {
        const auto kind = proto::next_event(monitor_);
        if (!kind) break;
        was = was || (is_connected_ && kind == ZMQ_EVENT_DISCONNECTED);
        is_connected_ = kind == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
    }
    return was;
}

std::optional<std::vector<std::uint8_t>> Dealer::receive(std::chrono::milliseconds timeout) {
    try {
        std::array<zmq::pollitem_t, 2> items{
            {{socket_.handle(), 0, ZMQ_POLLIN, 0}, {monitor_.handle(), -1, ZMQ_POLLIN, 0}}};
        if (zmq::poll(items.data(), monitor_ ? 2 : 1, timeout) == 0) return std::nullopt;
        zmq::message_t message;
        if (!socket_.recv(message, zmq::recv_flags::dontwait)) return std::nullopt;
        // Copied, because a frame may be unaligned in ZMQ's receive buffer, and a flatbuffer must be aligned.
        const auto* begin = message.data<std::uint8_t>();
        return std::vector<std::uint8_t>(begin, begin + message.size());
    } catch (const zmq::error_t& error) {
        // A signal to the engine interrupted the call.
        if (error.num() == EINTR) return std::nullopt;
        throw;
    }
}

}  // namespace croupier::client

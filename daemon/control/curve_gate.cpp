#include "daemon/control/curve_gate.h"

#include <array>

#include "daemon/control/peer.h"
#include "event_log/event_log.h"

namespace croupier::daemon {
namespace {

using event_log::Event;

constexpr const char* kStop = "inproc://croupier.curve-gate.stop";

}  // namespace

CurveGate::CurveGate(zmq::context_t& context, const std::vector<std::string>& authorized)
    : context_(&context), door_(context), stop_(context, zmq::socket_type::pair) {
    authorize(authorized);
    stop_.bind(kStop);
    thread_ = std::thread([this] { serve(); });
}

void CurveGate::authorize(const std::vector<std::string>& keys) {
    const std::lock_guard lock(mutex_);
    authorized_ = {keys.begin(), keys.end()};
}

bool CurveGate::knows(const std::string& key) const {
    const std::lock_guard lock(mutex_);
    return authorized_.contains(key);
}

CurveGate::~CurveGate() {
    // The C call, because it does not throw.
    zmq_send(stop_.handle(), "stop", 4, 0);
    thread_.join();
}

void CurveGate::serve() {
    zmq::socket_t stop(*context_, zmq::socket_type::pair);
    stop.connect(kStop);
    while (true) {
        std::array<zmq::pollitem_t, 2> items = {
            {{door_.socket().handle(), 0, ZMQ_POLLIN, 0}, {stop.handle(), 0, ZMQ_POLLIN, 0}}};
        zmq::poll(items.data(), items.size(), std::chrono::milliseconds(-1));
        if ((items[1].revents & ZMQ_POLLIN) != 0) return;
        const auto request = door_.receive();
        if (!request) continue;
        const bool known = knows(request->key);
        if (!known) {
            const std::string peer = "address " + request->address;
            event_log::write(Event::key_refused, {{"peer", peer}, {"public_key", request->key}},
                             "a peer at {} was refused: its CURVE key {} is not among the authorized ones",
                             request->address, request->key);
        }
        door_.answer(*request, known, request->key);
    }
}

}  // namespace croupier::daemon

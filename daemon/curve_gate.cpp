#include "daemon/curve_gate.h"

#include <array>
#include <zmq_addon.hpp>

#include "daemon/peer.h"

namespace croupier::daemon {
namespace {

constexpr const char* kStop = "inproc://croupier.curve-gate.stop";
// RFC 27: version, request id, domain, address, identity, mechanism, credentials.
constexpr std::size_t kRequestFrames = 7;
constexpr std::size_t kRawKeyBytes = 32;

std::string text_of_key(const zmq::message_t& raw) {
    if (raw.size() != kRawKeyBytes) return "";
    std::array<char, 41> text{};
    zmq_z85_encode(text.data(), raw.data<std::uint8_t>(), raw.size());
    return text.data();
}

}  // namespace

CurveGate::CurveGate(zmq::context_t& context, const std::vector<std::string>& authorized)
    : context_(&context), requests_(context, zmq::socket_type::rep), stop_(context, zmq::socket_type::pair) {
    authorize(authorized);
    requests_.bind("inproc://zeromq.zap.01");
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
            {{requests_.handle(), 0, ZMQ_POLLIN, 0}, {stop.handle(), 0, ZMQ_POLLIN, 0}}};
        zmq::poll(items.data(), items.size(), std::chrono::milliseconds(-1));
        if ((items[1].revents & ZMQ_POLLIN) != 0) return;
        std::vector<zmq::message_t> request;
        if (!zmq::recv_multipart(requests_, std::back_inserter(request))) continue;
        const std::string key = request.size() == kRequestFrames && request[5].to_string_view() == "CURVE"
                                    ? text_of_key(request[6])
                                    : "";
        const bool known = knows(key);
        const std::string id = request.size() > 1 ? request[1].to_string() : "";
        const std::string from = request.size() > 3 ? request[3].to_string() : "";
        if (!known) {
            log_.warn("a peer at " + loggable(from) +
                      " was refused: its CURVE key is not among the authorized ones");
        }
        const std::array<zmq::const_buffer, 6> answer = {
            zmq::str_buffer("1.0"), zmq::buffer(id), known ? zmq::str_buffer("200") : zmq::str_buffer("400"),
            zmq::str_buffer(""),
            // Becomes the property User-Id of every message of this peer (daemon/peer.h).
            zmq::buffer(key), zmq::str_buffer("")};
        zmq::send_multipart(requests_, answer);
    }
}

}  // namespace croupier::daemon

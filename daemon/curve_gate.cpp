#include "daemon/curve_gate.h"

#include <spdlog/spdlog.h>

#include <array>
#include <zmq_addon.hpp>

namespace croupier::daemon {
namespace {

constexpr const char* kStop = "inproc://croupier.curve-gate.stop";
// RFC 27: version, request id, domain, address, identity, mechanism, credentials.
constexpr std::size_t kRequestFrames = 7;

}  // namespace

CurveGate::CurveGate(zmq::context_t& context, const std::vector<std::string>& authorized)
    : context_(&context), requests_(context, zmq::socket_type::rep), stop_(context, zmq::socket_type::pair) {
    for (const auto& key : authorized) {
        std::array<std::uint8_t, 32> raw{};
        zmq_z85_decode(raw.data(), key.c_str());
        authorized_.emplace(raw.begin(), raw.end());
    }
    requests_.bind("inproc://zeromq.zap.01");
    stop_.bind(kStop);
    thread_ = std::thread([this] { serve(); });
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
        const bool known = request.size() == kRequestFrames && request[5].to_string_view() == "CURVE" &&
                           authorized_.contains(request[6].to_string());
        const std::string id = request.size() > 1 ? request[1].to_string() : "";
        const std::string from = request.size() > 3 ? request[3].to_string() : "";
        if (!known)
            spdlog::warn("a peer at {} was refused: its CURVE key is not among the authorized ones", from);
        const std::array<zmq::const_buffer, 6> answer = {
            zmq::str_buffer("1.0"),
            zmq::buffer(id),
            known ? zmq::str_buffer("200") : zmq::str_buffer("400"),
            zmq::str_buffer(""),
            zmq::str_buffer(""),
            zmq::str_buffer("")};
        zmq::send_multipart(requests_, answer);
    }
}

}  // namespace croupier::daemon

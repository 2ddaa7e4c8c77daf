#include "fan_out/key_gate.h"

#include <array>
#include <iterator>
#include <zmq_addon.hpp>

namespace croupier::fan_out {
namespace {

// RFC 27: version, request id, domain, address, identity, mechanism, credentials.
constexpr std::size_t kRequestFrames = 7;
constexpr std::size_t kRawKeyBytes = 32;

}  // namespace

KeyGate::KeyGate(zmq::context_t& context, const std::string& authorised_key)
    : authorised_(kRawKeyBytes, '\0'), requests_(context, zmq::socket_type::rep) {
    // Without a key the endpoint has no CURVE, and nobody asks.
    if (!authorised_key.empty()) {
        zmq_z85_decode(reinterpret_cast<std::uint8_t*>(authorised_.data()), authorised_key.c_str());
    }
    requests_.bind("inproc://zeromq.zap.01");
}

void KeyGate::answer() {
    std::vector<zmq::message_t> request;
    if (!zmq::recv_multipart(requests_, std::back_inserter(request), zmq::recv_flags::dontwait)) return;
    const bool known = request.size() == kRequestFrames && request[5].to_string_view() == "CURVE" &&
                       request[6].to_string_view() == authorised_;
    if (!known) ++refused_;
    const std::string id = request.size() > 1 ? request[1].to_string() : "";
    const std::array<zmq::const_buffer, 6> answer = {
        zmq::str_buffer("1.0"), zmq::buffer(id),     known ? zmq::str_buffer("200") : zmq::str_buffer("400"),
        zmq::str_buffer(""),    zmq::str_buffer(""), zmq::str_buffer("")};
    zmq::send_multipart(requests_, answer);
}

}  // namespace croupier::fan_out

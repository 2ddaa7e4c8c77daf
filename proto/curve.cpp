#include "proto/curve.h"

#include <array>
#include <cstdint>
#include <vector>

#include "proto/endpoint.h"
#include "proto/zmq_calls.h"

namespace croupier::proto {
namespace {

constexpr std::size_t kRawKeyBytes = 32;
// RFC 27: version, request id, domain, address, identity, mechanism, credentials.
constexpr std::size_t kRequestFrames = 7;

std::string text_of_key(const zmq::message_t& raw) {
    if (raw.size() != kRawKeyBytes) return "";
    std::array<char, kCurveKeyLength + 1> text{};
    zmq_z85_encode(text.data(), raw.data<std::uint8_t>(), raw.size());
    return text.data();
}

void choose_family(zmq::socket_t& socket, const std::string& endpoint) {
    socket.set(zmq::sockopt::ipv6, takes_ipv6(tcp_host(endpoint)));
}

}  // namespace

bool is_curve_key(const std::string& text) {
    std::array<std::uint8_t, kRawKeyBytes> raw{};
    return text.size() == kCurveKeyLength && zmq_z85_decode(raw.data(), text.c_str()) != nullptr;
}

std::optional<std::string> key_length_fault(const std::string& endpoint,
                                            std::initializer_list<NamedKey> keys) {
    for (const NamedKey& key : keys) {
        if (key.text.size() == kCurveKeyLength) continue;
        return endpoint + " is reached over tcp, which needs CURVE: " + key.name + " has " +
               std::to_string(key.text.size()) + " characters, a Z85 key has " +
               std::to_string(kCurveKeyLength);
    }
    return std::nullopt;
}

void serve_tcp(zmq::socket_t& socket, const std::string& endpoint, const std::string& own_secret) {
    choose_family(socket, endpoint);
    socket.set(zmq::sockopt::curve_server, true);
    socket.set(zmq::sockopt::curve_secretkey, own_secret);
}

void join_tcp(zmq::socket_t& socket, const std::string& endpoint, const std::string& server_public,
              const std::string& own_public, const std::string& own_secret) {
    choose_family(socket, endpoint);
    socket.set(zmq::sockopt::curve_serverkey, server_public);
    socket.set(zmq::sockopt::curve_publickey, own_public);
    socket.set(zmq::sockopt::curve_secretkey, own_secret);
}

std::string not_a_key(const std::string& endpoint, const zmq::error_t& error) {
    return "a CURVE key for " + endpoint + " is not valid Z85 text (" + error.what() + ")";
}

ZapDoor::ZapDoor(zmq::context_t& context) : socket_(context, zmq::socket_type::rep) {
    uninterrupted([&] { socket_.bind("inproc://zeromq.zap.01"); });
}

std::optional<ZapRequest> ZapDoor::receive(zmq::recv_flags flags) {
    const std::vector<zmq::message_t> frames = receive_frames(socket_, flags);
    if (frames.empty()) return std::nullopt;
    ZapRequest request;
    if (frames.size() > 1) request.id = frames[1].to_string();
    if (frames.size() > 3) request.address = frames[3].to_string();
    if (frames.size() == kRequestFrames && frames[5].to_string_view() == "CURVE")
        request.key = text_of_key(frames[6]);
    return request;
}

void ZapDoor::answer(const ZapRequest& request, bool welcome, const std::string& user) {
    const std::array<zmq::const_buffer, 6> frames = {
        zmq::str_buffer("1.0"),
        zmq::buffer(request.id),
        welcome ? zmq::str_buffer("200") : zmq::str_buffer("400"),
        zmq::str_buffer(""),
        zmq::buffer(user),
        zmq::str_buffer("")};
    send_frames(socket_, frames, zmq::send_flags::none);
}

}  // namespace croupier::proto

// ZMQ over TCP: CURVE's keys as text, the sockets of both ends, and the door at which libzmq asks who may
// come in (ZAP, RFC 27). A library of its own: the rest of proto/ needs no ZMQ.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <zmq.hpp>

namespace croupier::proto {

constexpr std::size_t kCurveKeyLength = 40;  // characters of Z85

bool is_curve_key(const std::string& text);

struct NamedKey {
    const char* name;  // as the caller's options have it
    const std::string& text;
};
// What a caller over tcp has got wrong with its keys, as a sentence.
std::optional<std::string> key_length_fault(const std::string& endpoint,
                                            std::initializer_list<NamedKey> keys);

// Makes the socket ready to bind a tcp endpoint. Throws zmq::error_t for what is no key.
void serve_tcp(zmq::socket_t& socket, const std::string& endpoint, const std::string& own_secret);
// Makes it ready to connect to one. Likewise.
void join_tcp(zmq::socket_t& socket, const std::string& endpoint, const std::string& server_public,
              const std::string& own_public, const std::string& own_secret);
std::string not_a_key(const std::string& endpoint, const zmq::error_t& error);

struct ZapRequest {
    std::string id;
    std::string address;  // of the peer that knocks
    std::string key;      // its public one, in Z85; empty: it does not use CURVE
};

class ZapDoor {
  public:
    // Before the first CURVE socket of the context is bound.
    explicit ZapDoor(zmq::context_t& context);

    zmq::socket_t& socket() { return socket_; }
    // Nothing when there is none, with dontwait.
    std::optional<ZapRequest> receive(zmq::recv_flags flags = zmq::recv_flags::none);
    // `user` becomes the property User-Id of every message of the peer.
    void answer(const ZapRequest& request, bool welcome, const std::string& user = "");

  private:
    zmq::socket_t socket_;
};

}  // namespace croupier::proto

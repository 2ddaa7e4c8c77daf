// Answers libzmq's authentication requests (ZAP, RFC 27) of one context: one key may come in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>
#include <zmq.hpp>

namespace croupier::fan_out {

class KeyGate {
  public:
    // Before the first CURVE socket of the context is bound.
    KeyGate(zmq::context_t& context, const std::string& authorised_key);

    zmq::socket_t& requests() { return requests_; }
    // When there is a request.
    void answer();
    std::uint32_t refused() const { return refused_; }

  private:
    std::string authorised_;  // 32 raw bytes
    zmq::socket_t requests_;
    std::uint32_t refused_ = 0;
};

}  // namespace croupier::fan_out

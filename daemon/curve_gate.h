// Who may come in over CURVE: answers libzmq's authentication requests (ZAP, RFC 27) from a list of keys.
#pragma once

#include <set>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

namespace croupier::daemon {

class CurveGate {
  public:
    // Must exist before the first CURVE socket of the context is bound.
    CurveGate(zmq::context_t& context, const std::vector<std::string>& authorized);
    ~CurveGate();
    CurveGate(const CurveGate&) = delete;
    CurveGate& operator=(const CurveGate&) = delete;

  private:
    void serve();

    zmq::context_t* context_;
    std::set<std::string> authorized_;  // 32 raw bytes each
    zmq::socket_t requests_;
    zmq::socket_t stop_;
    std::thread thread_;
};

}  // namespace croupier::daemon

// Who may come in over CURVE: answers libzmq's authentication requests (ZAP, RFC 27) from a list of keys.
#pragma once

#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "proto/curve.h"

namespace croupier::daemon {

class CurveGate {
  public:
    // Must exist before the first CURVE socket of the context is bound.
    CurveGate(zmq::context_t& context, const std::vector<std::string>& authorized);
    ~CurveGate();
    // From now on these and no others; who is connected with another is refused at its next message.
    void authorize(const std::vector<std::string>& keys);
    bool knows(const std::string& key) const;
    CurveGate(const CurveGate&) = delete;
    CurveGate& operator=(const CurveGate&) = delete;

  private:
    void serve();

    zmq::context_t* context_;
    mutable std::mutex mutex_;
    std::set<std::string> authorized_;  // Z85
    proto::ZapDoor door_;
    zmq::socket_t stop_;
    std::thread thread_;
};

}  // namespace croupier::daemon

// The ZMQ decision stream: completed steps to the clients that asked for them, in order, from the ring.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <zmq.hpp>

#include "daemon/session_registry.h"

namespace croupier::daemon {

class DecisionStream {
  public:
    DecisionStream(zmq::context_t& context, std::uint32_t high_water_mark);

    zmq::socket_t& socket() { return socket_; }
    // Subscriptions that wait on the socket. A client subscribes again after it reconnected, and is sent
    // everything that it has not taken.
    void serve(const SessionRegistry& registry);
    // Sends what was decided. A subscriber that does not read keeps its steps in the ring: they are sent
    // later, and its own ring is what fills up.
    void send_completed(const SessionRegistry& registry);

  private:
    struct Subscriber {
        std::string identity;
        std::uint64_t next_step = 0;
    };

    bool send_step(const shm::Segment& segment, Subscriber& subscriber);
    void refuse(const zmq::message_t& peer, const std::string& why);

    zmq::socket_t socket_;
    std::map<std::uint64_t, Subscriber> subscribers_;  // by session
};

}  // namespace croupier::daemon

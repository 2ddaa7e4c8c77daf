// The ZMQ decision stream: completed steps to the clients that asked for them, in order, from the ring.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <zmq.hpp>

#include "daemon/control/session_registry.h"
#include "shm/decision_sender.h"

namespace croupier::daemon {

class DecisionStream {
  public:
    DecisionStream(zmq::context_t& context, std::uint32_t high_water_mark);

    zmq::socket_t& socket() { return socket_; }
    // Of a peer whose key was authorised when it connected: whether it still is.
    using Admitted = std::function<bool(const Peer&)>;
    // Subscriptions that wait on the socket. A client subscribes again after it reconnected, and is sent
    // everything that it has not taken.
    void serve(const SessionRegistry& registry, const std::string& endpoint, const Admitted& admitted);
    // Sends what was decided. A subscriber that does not read keeps its steps in the ring: they are sent
    // later, and its own ring is what fills up.
    void send_completed(const SessionRegistry& registry);
    // Who is not admitted any more is sent nothing more.
    void drop_unadmitted(const Admitted& admitted);

  private:
    struct Subscriber {
        std::string frame;
        Peer peer;
        shm::DecisionSender sender;
    };

    bool send(const shm::Segment& segment, const std::string& frame,
              const flatbuffers::FlatBufferBuilder& builder);
    void refuse(const zmq::message_t& peer, const shm::Error& why);

    shm::Result<std::uint64_t> read_subscription(zmq::message_t& frame, const SessionRegistry& registry,
                                                 const Peer& peer) const;

    zmq::socket_t socket_;
    std::map<std::uint64_t, Subscriber> subscribers_;  // by session
};

}  // namespace croupier::daemon

// The decision stream: sends decided steps to the clients that take them over ZMQ. A client subscribes with
// Configure, and again after each reconnection.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <zmq.hpp>

#include "daemon/control/session_registry.h"
#include "shm/decision_sender.h"

namespace croupier::daemon {

class DecisionStream {
  public:
    // Sends `asker` the session's steps, from the first one that its client has not taken. Those that were
    // sent over the same connection are not sent again.
    void subscribe(const shm::Segment& segment, const Asker& asker);
    void unsubscribe(std::uint64_t session_id) { subscribers_.erase(session_id); }

    // False: the peer cannot receive the message now.
    using Send = std::function<bool(const std::string& frame, zmq::message_t message)>;
    // Steps that a slow subscriber cannot receive stay in the ring and are sent later.
    void send_decided(const SessionRegistry& registry, const Send& send);

    // Whether a peer whose key was authorized when it connected is still admitted.
    using Admitted = std::function<bool(const Peer&)>;
    void drop_unadmitted(const Admitted& admitted);

  private:
    // The bytes of one user's steps that libzmq holds, because their subscribers have not read them.
    using Unread = std::shared_ptr<std::atomic<std::uint64_t>>;
    struct Subscriber {
        std::string frame;
        Peer peer;
        Unread unread;
        shm::DecisionSender sender;
    };
    static bool send_next(const shm::Segment& segment, Subscriber& subscriber, const Send& send);

    std::map<std::uint64_t, Subscriber> subscribers_;  // by session
    std::map<std::string, Unread> unread_;             // by user
};

}  // namespace croupier::daemon

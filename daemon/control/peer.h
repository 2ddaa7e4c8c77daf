// Who sent a message, by what the kernel or CURVE vouches for, and what it may do.
#pragma once

#include <string>
#include <string_view>
#include <zmq.hpp>

#include "shm/error.h"

namespace croupier::daemon {

constexpr std::string_view kKeyOwner = "key ";

struct Peer {
    // "uid 1000" over ipc, "key <Z85>" over tcp: whose session a new one is, and who may go on with it.
    std::string identity;
    // Of the daemon's own user or root: may do everything.
    bool trusted = false;

    bool may_act_for(const std::string& owner) const { return trusted || identity == owner; }
};

// Of any frame of a message that came in over the endpoint that is bound to it.
shm::Result<Peer> peer_of(zmq::message_t& frame, const std::string& endpoint);

}  // namespace croupier::daemon

// Binding a ZMQ socket: file permissions for ipc, CURVE for tcp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "config/config.h"
#include "daemon/control/lock_file.h"

namespace croupier::daemon {

// Messages of one peer that wait to be read; libzmq counts whole ones. More wait at the peer.
constexpr int kUnreadMessages = 64;

struct CurveKeys {
    std::string secret;                   // Z85; empty: no CURVE
    std::vector<std::string> authorized;  // Z85 public keys of the clients that may come in
};

shm::Result<CurveKeys> load_curve_keys(const config::Curve& curve);

// Binds `socket`; on tcp only with keys. An ipc socket gets `ipc_mode` and, when given, `group`, and is
// refused where another process listens already. The lock says so to other daemons; it has to outlive the
// socket. `key` is the endpoint's.
shm::Result<LockFile> bind_endpoint(zmq::socket_t& socket, const std::string& endpoint,
                                    const std::string& key, std::uint32_t ipc_mode, const std::string& group,
                                    const CurveKeys& keys);

}  // namespace croupier::daemon

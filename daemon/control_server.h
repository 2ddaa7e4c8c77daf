// The control socket: requests of clients in, answers out. Whatever else arrives is refused and counted.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <zmq.hpp>

#include "daemon/session_registry.h"
#include "proto/wire.h"

namespace croupier::daemon {

struct ControlContext {
    SessionRegistry* registry = nullptr;
    std::string shm_directory;
    std::string instance;
    std::string decisions_endpoint;
    std::function<void()> drain;
};

class ControlServer {
  public:
    ControlServer(zmq::context_t& context, std::uint64_t max_message_bytes);

    zmq::socket_t& socket() { return socket_; }
    // Answers everything that waits on the socket.
    void serve(const ControlContext& context);
    std::uint64_t refused() const { return refused_; }

  private:
    flatbuffers::DetachedBuffer answer(const ControlContext& context, const zmq::message_t& request);

    zmq::socket_t socket_;
    std::uint64_t refused_ = 0;
};

}  // namespace croupier::daemon

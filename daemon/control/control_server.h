// The control socket: requests of clients in, answers out. Whatever else arrives is refused and counted.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "daemon/control/session_registry.h"
#include "daemon/control/statistics_worker.h"
#include "proto/wire.h"

namespace croupier::daemon {

struct ControlContext {
    SessionRegistry* registry = nullptr;
    StatisticsWorker* statistics = nullptr;
    // Of a peer whose key was authorised when it connected: whether it still is.
    std::function<bool(const Peer&)> admitted;
    std::string endpoint;
    std::string shm_directory;
    std::string instance;
    std::string decisions_endpoint;
    std::function<void()> drain;
};

class ControlServer {
  public:
    ControlServer(zmq::context_t& context, std::uint64_t max_message_bytes);

    zmq::socket_t& socket() { return socket_; }
    // Answers everything that waits on the socket, and what is ready of what was asked before.
    void serve(const ControlContext& context);

  private:
    using Reply = std::optional<flatbuffers::DetachedBuffer>;  // nothing: it comes later

    Reply answer(const ControlContext& context, std::vector<zmq::message_t>& frames);
    Reply answer_body(const ControlContext& context, const wire::Message& message, Asker asker);
    Reply answer_open(const ControlContext& context, const wire::Open& open, const Asker& asker);
    Reply answer_statistics(const ControlContext& context, Asker asker);
    void answer_late(const ControlContext& context);
    void send(const std::string& frame, const flatbuffers::DetachedBuffer& reply);

    zmq::socket_t socket_;
    std::vector<Asker> ask_statistics_;   // of the snapshot that is being made
    std::vector<Asker> asked_meanwhile_;  // of the next one
};

}  // namespace croupier::daemon

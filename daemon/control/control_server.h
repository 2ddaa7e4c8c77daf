// The control socket: reads the clients' requests, sends the answers and the decision stream, and refuses
// every other message.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "daemon/control/decision_stream.h"
#include "daemon/control/session_registry.h"
#include "daemon/control/statistics_worker.h"
#include "proto/wire.h"

namespace croupier::daemon {

struct ControlContext {
    SessionRegistry* registry = nullptr;
    StatisticsWorker* statistics = nullptr;
    DecisionStream::Admitted admitted;
    std::string endpoint;
    std::string shm_directory;
    std::string instance;
    std::function<void()> drain;
};

class ControlServer {
  public:
    ControlServer(zmq::context_t& context, std::uint64_t max_message_bytes);

    zmq::socket_t& socket() { return socket_; }
    // Answers the waiting requests, then sends late answers that are ready, and decided steps.
    void serve(const ControlContext& context);
    void drop_unadmitted(const DecisionStream::Admitted& admitted) { decisions_.drop_unadmitted(admitted); }

  private:
    using Reply = std::optional<flatbuffers::DetachedBuffer>;  // nothing: it comes later

    Reply answer(const ControlContext& context, std::vector<zmq::message_t>& frames);
    Reply answer_body(const ControlContext& context, const wire::Message& message, Asker asker);
    Reply answer_open(const ControlContext& context, const wire::Open& open, const Asker& asker);
    Reply answer_configure(const ControlContext& context, const wire::Configure& asked, const Asker& asker);
    Reply answer_statistics(const ControlContext& context, Asker asker);
    void answer_late(const ControlContext& context);
    void answer_waiting(const ControlContext& context);
    // False: the peer is gone, or does not read.
    bool send(const std::string& frame, zmq::message_t message);

    zmq::socket_t socket_;
    DecisionStream decisions_;
    std::vector<Asker> ask_statistics_;   // of the snapshot that is being made
    std::vector<Asker> asked_meanwhile_;  // of the next one
};

}  // namespace croupier::daemon

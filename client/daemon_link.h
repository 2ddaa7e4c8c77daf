// Opens, configures and closes a session: over the daemon's control socket, or through the relay beside it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "client/control_channel.h"
#include "client/dealer.h"
#include "client/options.h"

namespace croupier::client {

struct SessionFacts {
    std::uint64_t id = 0;
    std::string segment_path;
    std::string shm_directory;
    std::string instance;
    bool resumed = false;
};

class DaemonLink {
  public:
    static shm::Result<DaemonLink> open(const OpenRequest& request);

    const SessionFacts& facts() const { return facts_; }
    shm::Result<bool> configure(bool decisions_over_zmq);
    // Another connection to a daemon of this host.
    shm::Result<Dealer> connect() { return Dealer::connect(context_, endpoint_, keys_, Dealer::Watch::no); }
    shm::Result<bool> close();

  private:
    DaemonLink(zmq::context_t context, std::unique_ptr<Control> control, const OpenRequest& request)
        : context_(std::move(context)),
          control_(std::move(control)),
          endpoint_(request.endpoint),
          keys_(request.keys) {}
    shm::Result<bool> ask_open(const OpenRequest& request);

    zmq::context_t context_;  // before every socket in it, so that it is destroyed after them
    std::unique_ptr<Control> control_;
    std::string endpoint_;
    CurveKeys keys_;
    SessionFacts facts_;
};

}  // namespace croupier::client

// The relay's side of RelayedControl: hands a scheduler's requests to the daemon of this host, and its
// answers back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/dealer.h"
#include "proto/wire.h"

namespace croupier::client {

// Opens, configures and closes one session after the other. Never waits: the daemon's answer comes by news().
class ControlForwarder {
  public:
    // `peer_key`: the scheduler's public CURVE key. The names of its sessions end with a part of it here, so
    // that it opens, resumes and takes over no session but its own. Empty: a scheduler of this host, over
    // ipc, whose names stay as they are.
    ControlForwarder(std::string endpoint, const std::string& peer_key);

    // Whether a record is such a request; all others are the ring's.
    static bool is_request(std::span<const std::uint8_t> record);
    // `record` is a request, aligned for every type. Returns the refusal, if it is not handed on.
    std::optional<std::vector<std::uint8_t>> forward(std::span<const std::uint8_t> record);
    // The next answer that has come.
    std::optional<std::vector<std::uint8_t>> news();
    // The session that was opened last.
    struct Opened {
        std::uint64_t id = 0;
        std::string segment_path;  // empty: none was
    };
    const Opened& opened() const { return opened_; }

  private:
    shm::Result<bool> send(const wire::Message& message, std::span<const std::uint8_t> record);
    std::vector<std::uint8_t> under_own_name(const wire::Message& message,
                                             std::span<const std::uint8_t> record) const;
    // A relay acts for the session that it has opened, and for no other one of its user.
    shm::Result<bool> check_session(std::uint64_t id) const;

    std::string endpoint_;
    std::string suffix_;      // of the names of sessions
    zmq::context_t context_;  // before the socket in it, so that it is destroyed after it
    std::optional<Dealer> dealer_;
    std::uint64_t asked_ = 0;      // the last request's number
    std::size_t asked_bytes_ = 0;  // 0: it is answered
    Opened opened_;
};

}  // namespace croupier::client

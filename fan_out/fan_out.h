// Sends byte strings (records) from one process to all others of a group, in order and each exactly once.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shm/error.h"

namespace croupier::fan_out {

enum class Transport : std::uint32_t { zmq = 0, nccl = 1 };

struct FanOutKeys {
    std::string own_public;
    std::string own_secret;
    std::string peer_public;  // the root's key; for the root, the key of its members
};

struct FanOutOptions {
    Transport transport = Transport::zmq;
    std::string endpoint;  // where the root listens: tcp://<host>:<port>, with keys, or ipc://<path>
    FanOutKeys keys;
    std::uint32_t members = 2;  // the root included
    std::uint32_t member = 0;   // 0: the root
    std::int32_t device = 0;    // of CUDA, with NCCL
    std::chrono::milliseconds join_timeout{5000};
    std::uint32_t window = 64;  // records in flight to the slowest member
    // For a member: called each time join_timeout passes while it is connected to a root and has said hello.
    // True: wait for another join_timeout, because the root may have let it in already. Empty: give up.
    std::function<bool()> waits_on = nullptr;
};

using Record = std::vector<std::uint8_t>;

struct Answer {
    std::uint32_t member = 0;
    Record bytes;
};

// One thread at a time may use it. An error ends the group: every later call returns the same error.
class FanOut {
  public:
    virtual ~FanOut() = default;

    // For the root. False: a member has not received the records in flight, so nothing was sent.
    virtual shm::Result<bool> send(std::span<const std::uint8_t> record);
    virtual shm::Result<std::optional<Answer>> receive_answer(std::chrono::milliseconds timeout);
    // Readable when an answer may have come. send() may reset it, so call receive_answer() until it returns
    // nothing, then poll.
    virtual int descriptor() const { return -1; }
    // The group has failed beside ZMQ: its members are not told that the root closed it.
    virtual void skip_farewell() {}

    // For the other members. The record stays valid until the next call and is aligned for every type.
    // Returns nothing as soon as the descriptor `wake` is readable (-1: none).
    virtual shm::Result<std::optional<std::span<const std::uint8_t>>> receive(
        std::chrono::milliseconds timeout, int wake = -1);
    // False: the root does not read its answers, so nothing was sent.
    virtual shm::Result<bool> answer(std::span<const std::uint8_t> bytes);
    // After an error: the root has closed the group. It did not die, and its connection was not lost.
    virtual bool closed_by_root() const { return false; }
};

// Returns when all members have joined. The error timed_out names the members that did not join in time.
shm::Result<std::unique_ptr<FanOut>> open_fan_out(const FanOutOptions& options);

}  // namespace croupier::fan_out

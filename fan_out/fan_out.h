// Records from one process to all others of a group: byte strings, in order, none lost, none twice.
#pragma once

#include <chrono>
#include <cstdint>
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
    std::string peer_public;  // the root's; to the root: that of its members
};

struct FanOutOptions {
    Transport transport = Transport::zmq;
    std::string endpoint;  // where the root listens: tcp://<host>:<port>, with keys, or ipc://<path>
    FanOutKeys keys;
    std::uint32_t members = 2;  // the root included
    std::uint32_t member = 0;   // 0: the root
    std::int32_t device = 0;    // of CUDA, with NCCL
    std::chrono::milliseconds join_timeout{5000};
    std::uint32_t window = 64;  // records under way to the slowest member
};

using Record = std::vector<std::uint8_t>;

struct Answer {
    std::uint32_t member = 0;
    Record bytes;
};

// Used by one thread at a time. After an error the group is over: every later call gives the same error.
class FanOut {
  public:
    virtual ~FanOut() = default;

    // The root's. False: busy, a member has not received what is under way; nothing was sent.
    virtual shm::Result<bool> send(std::span<const std::uint8_t> record);
    virtual shm::Result<std::optional<Answer>> receive_answer(std::chrono::milliseconds timeout);

    // Of the other members; the record stays until the next call, aligned for every type.
    virtual shm::Result<std::optional<std::span<const std::uint8_t>>> receive(
        std::chrono::milliseconds timeout);
    // False: busy, the root does not read its answers.
    virtual shm::Result<bool> answer(std::span<const std::uint8_t> bytes);
};

// Returns when all members are there; timed_out, and who is missing, when they are not in time.
shm::Result<std::unique_ptr<FanOut>> open_fan_out(const FanOutOptions& options);

}  // namespace croupier::fan_out

// The compared methods to send a record to other processes: a group over ZMQ, a group over NCCL, and a bare
// PUB/SUB without window, receipts and detection of loss.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace croupier::bench {

enum class Way : std::uint8_t { bare, zmq, nccl };
const char* name_of(Way way);

struct Meeting {
    std::string endpoint;
    // CURVE keys for tcp: the root's, then the leaves'.
    std::string root_public, root_secret, leaf_public, leaf_secret;
    std::uint32_t leaves = 1;
};

// Both throw std::runtime_error, also if the other side does not connect.
class RootEnd {
  public:
    virtual ~RootEnd() = default;
    // Returns when the record has been sent.
    virtual void send(std::span<const std::uint8_t> record) = 0;
};

class LeafEnd {
  public:
    virtual ~LeafEnd() = default;
    // Valid until the next call.
    virtual std::span<const std::uint8_t> receive() = 0;
};

std::unique_ptr<RootEnd> open_root(Way way, const Meeting& meeting);
std::unique_ptr<LeafEnd> open_leaf(Way way, const Meeting& meeting, std::uint32_t leaf);

}  // namespace croupier::bench

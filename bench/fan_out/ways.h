// The ways by which a record reaches other processes that are compared: a group over ZMQ, over NCCL, and a
// bare PUB/SUB that knows of no loss, no window and no answer.
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
    // Of CURVE, for tcp; the root's, then the leaves'.
    std::string root_public, root_secret, leaf_public, leaf_secret;
    std::uint32_t leaves = 1;
};

// Both throw std::runtime_error, also when the other side does not come.
class RootEnd {
  public:
    virtual ~RootEnd() = default;
    // Returns when the record is on its way.
    virtual void send(std::span<const std::uint8_t> record) = 0;
};

class LeafEnd {
  public:
    virtual ~LeafEnd() = default;
    // Until the next call.
    virtual std::span<const std::uint8_t> receive() = 0;
};

std::unique_ptr<RootEnd> open_root(Way way, const Meeting& meeting);
std::unique_ptr<LeafEnd> open_leaf(Way way, const Meeting& meeting, std::uint32_t leaf);

}  // namespace croupier::bench

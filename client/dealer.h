// A DEALER socket to the daemon: each message is one frame, and TCP connections use CURVE.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "shm/error.h"

namespace croupier::client {

struct CurveKeys {
    std::string server;
    std::string client_public;
    std::string client_secret;
};

class Dealer {
  public:
    static shm::Result<Dealer> connect(zmq::context_t& context, const std::string& endpoint,
                                       const CurveKeys& keys);

    const std::string& endpoint() const { return endpoint_; }
    void send(const std::uint8_t* bytes, std::size_t size);
    // From now on was_cut_off() tells, and ends a receive().
    void watch(zmq::context_t& context);
    // Whether the daemon has ended an established connection since the last look.
    bool was_cut_off();
    // One message, in memory that is aligned for it. Returns nothing after the timeout.
    std::optional<std::vector<std::uint8_t>> receive(std::chrono::milliseconds timeout);

  private:
    Dealer(zmq::socket_t socket, std::string endpoint)
        : socket_(std::move(socket)), endpoint_(std::move(endpoint)) {}

    zmq::socket_t socket_;
    zmq::socket_t monitor_;  // of socket_, if it is watched
    bool is_connected_ = false;
    std::string endpoint_;
};

}  // namespace croupier::client

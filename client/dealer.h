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
    // With `watch`, was_cut_off() tells, and ends a receive().
    enum class Watch { no, yes };
    static shm::Result<Dealer> connect(zmq::context_t& context, const std::string& endpoint,
                                       const CurveKeys& keys, Watch watch);
    ~Dealer();
    Dealer(Dealer&&) = default;
    Dealer& operator=(Dealer&&) = delete;

    const std::string& endpoint() const { return endpoint_; }
    void send(const std::uint8_t* bytes, std::size_t size);
    // Whether the daemon has ended an established connection since the last look.
    bool was_cut_off();
    // One message, in memory that is aligned for it. Returns nothing after the timeout.
    std::optional<std::vector<std::uint8_t>> receive(std::chrono::milliseconds timeout);

  private:
    Dealer(zmq::socket_t socket, zmq::socket_t monitor, std::string endpoint)
        : socket_(std::move(socket)), monitor_(std::move(monitor)), endpoint_(std::move(endpoint)) {}

    zmq::socket_t socket_;
    zmq::socket_t monitor_;  // of socket_; none: it is not watched
    bool is_connected_ = false;
    std::string endpoint_;
};

}  // namespace croupier::client

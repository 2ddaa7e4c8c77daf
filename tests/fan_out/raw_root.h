// A root of a fan-out that speaks frame by frame, as a test tells it to.
#pragma once

#include <array>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>
#include <zmq_addon.hpp>

#include "proto/fan_out_frame.h"

namespace croupier::testing {

inline proto::FanOutHeader header_of(proto::FanOutKind kind, std::uint64_t number = 0) {
    proto::FanOutHeader header;
    header.session = 77;
    header.kind = kind;
    header.number = number;
    header.members = 2;
    return header;
}

class RawRoot {
  public:
    explicit RawRoot(const std::string& endpoint) : socket_(context_, zmq::socket_type::router) {
        socket_.set(zmq::sockopt::linger, 0);
        // A member that never comes fails the test.
        socket_.set(zmq::sockopt::rcvtimeo, 20000);
        socket_.bind(endpoint);
    }
    void await_hello() {
        std::vector<zmq::message_t> hello;
        if (!zmq::recv_multipart(socket_, std::back_inserter(hello)))
            throw std::runtime_error("no member said hello");
        member_ = hello.at(0).to_string();
    }
    void welcome() {
        await_hello();
        send(proto::fan_out_frame(header_of(proto::FanOutKind::welcome), {}));
    }
    void send(const proto::FanOutBytes& frame) {
        const std::array<zmq::const_buffer, 2> frames = {zmq::buffer(member_), zmq::buffer(frame)};
        zmq::send_multipart(socket_, frames);
    }

  private:
    zmq::context_t context_;
    zmq::socket_t socket_;
    std::string member_;
};

}  // namespace croupier::testing

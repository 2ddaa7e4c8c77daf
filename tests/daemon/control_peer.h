// A raw peer of the daemon's sockets: sends any bytes, and reads the answers as messages.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>
#include <zmq.hpp>
#include <zmq_addon.hpp>

#include "proto/wire.h"

namespace croupier::testing {

class ControlPeer {
  public:
    // `id`: what it tells the other side to know it by; empty: nothing.
    explicit ControlPeer(const std::string& endpoint, const std::string& id = "")
        : socket_(context_, zmq::socket_type::dealer) {
        socket_.set(zmq::sockopt::linger, 0);
        if (!id.empty()) socket_.set(zmq::sockopt::routing_id, id);
        socket_.connect(endpoint);
    }

    void send(const void* bytes, std::size_t size) {
        socket_.send(zmq::buffer(bytes, size), zmq::send_flags::none);
    }
    void send(const std::vector<std::string>& frames) {
        std::vector<zmq::const_buffer> parts;
        parts.reserve(frames.size());
        for (const auto& frame : frames) parts.push_back(zmq::buffer(frame));
        zmq::send_multipart(socket_, parts);
    }
    void send(const flatbuffers::FlatBufferBuilder& builder) {
        send(builder.GetBufferPointer(), builder.GetSize());
    }

    // The next answer; nothing when none comes within `timeout`. It points into this peer's buffer.
    const wire::Message* receive(std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
        zmq::pollitem_t item{socket_.handle(), 0, ZMQ_POLLIN, 0};
        if (zmq::poll(&item, 1, timeout) == 0) return nullptr;
        zmq::message_t answer;
        if (!socket_.recv(answer)) return nullptr;
        const auto* begin = answer.data<std::uint8_t>();
        bytes_.assign(begin, begin + answer.size());
        const auto parsed = wire::parse(bytes_.data(), bytes_.size());
        const auto* message = std::get_if<const wire::Message*>(&parsed);
        return message != nullptr ? *message : nullptr;
    }
    // The text of the refusal that comes next; empty when something else comes.
    std::string refusal() {
        const wire::Message* answer = receive();
        const auto* refused = answer != nullptr ? answer->body_as_Refusal() : nullptr;
        return refused != nullptr ? refused->message()->str() : "";
    }
    zmq::socket_t& socket() { return socket_; }
    zmq::context_t& context() { return context_; }

  private:
    zmq::context_t context_;
    zmq::socket_t socket_;
    std::vector<std::uint8_t> bytes_;
};

}  // namespace croupier::testing

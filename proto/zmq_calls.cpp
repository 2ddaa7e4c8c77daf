#include "proto/zmq_calls.h"

#include <cstring>

namespace croupier::proto {

zmq::socket_t monitor_of(zmq::context_t& context, zmq::socket_t& socket, const std::string& place,
                         int events) {
    zmq::socket_t reader(context, zmq::socket_type::pair);
    reader.set(zmq::sockopt::linger, 0);
    // Nor does libzmq go on while the reader has no room.
    reader.set(zmq::sockopt::rcvhwm, 0);
    uninterrupted([&] {
        if (zmq_socket_monitor(socket.handle(), place.c_str(), events) != 0) throw zmq::error_t();
    });
    uninterrupted([&] { reader.connect(place); });
    return reader;
}

std::optional<std::uint16_t> next_event(zmq::socket_t& reader) {
    const auto frames = receive_frames(reader, zmq::recv_flags::dontwait);
    if (frames.empty()) return std::nullopt;
    const zmq::message_t& event = frames.front();  // the endpoint follows
    std::uint16_t number = 0;
    if (event.size() >= sizeof(number)) std::memcpy(&number, event.data(), sizeof(number));
    return number;
}

// Once a first frame is accepted, libzmq has room for the others.
bool send_frames(zmq::socket_t& socket, std::span<const zmq::const_buffer> frames, zmq::send_flags flags) {
    for (std::size_t i = 0; i < frames.size(); ++i) {
        const auto how = i + 1 < frames.size() ? flags | zmq::send_flags::sndmore : flags;
        if (!uninterrupted([&] { return socket.send(frames[i], how); })) return false;
    }
    return true;
}

std::vector<zmq::message_t> receive_frames(zmq::socket_t& socket, zmq::recv_flags flags) {
    std::vector<zmq::message_t> frames;
    do {
        zmq::message_t frame;
        if (!uninterrupted([&] { return socket.recv(frame, flags); })) return {};
        frames.push_back(std::move(frame));
    } while (frames.back().more());
    return frames;
}

}  // namespace croupier::proto

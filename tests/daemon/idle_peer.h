// A connection that says nothing, to a UNIX socket or to a TCP port.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>
#include <vector>

#include "shm/file.h"

namespace croupier::testing {

class IdlePeer {
  public:
    explicit IdlePeer(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path.copy(address.sun_path, sizeof(address.sun_path) - 1);
        connected_ =
            ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    }
    // To 127.0.0.1, from another address of the loopback network.
    IdlePeer(const std::string& from, std::uint16_t port)
        : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        const sockaddr_in own = ipv4(from, 0);
        const sockaddr_in to = ipv4("127.0.0.1", port);
        connected_ = ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&own), sizeof(own)) == 0 &&
                     ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0;
    }
    bool connected() const { return connected_; }
    // The other side has not closed it so far. What it says at first, as libzmq does, is read and forgotten.
    bool is_open() const {
        char some[256];
        ssize_t got = 0;
        do {
            got = ::recv(socket_.get(), some, sizeof(some), MSG_DONTWAIT);
        } while (got > 0);
        return connected_ && got < 0 && errno == EAGAIN;
    }

  private:
    static sockaddr_in ipv4(const std::string& text, std::uint16_t port) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        ::inet_pton(AF_INET, text.c_str(), &address.sin_addr);
        return address;
    }

    shm::FileDescriptor socket_;
    bool connected_ = false;
};

inline std::vector<IdlePeer> idle_peers(const std::string& path, int count) {
    std::vector<IdlePeer> peers;
    peers.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) peers.emplace_back(path);
    return peers;
}

inline std::vector<IdlePeer> idle_peers_from(const std::string& address, std::uint16_t port, int count) {
    std::vector<IdlePeer> peers;
    peers.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) peers.emplace_back(address, port);
    return peers;
}

inline std::ptrdiff_t open_ones(const std::vector<IdlePeer>& peers) {
    return std::count_if(peers.begin(), peers.end(), [](const IdlePeer& each) { return each.is_open(); });
}

}  // namespace croupier::testing

// A connection to a UNIX socket that says nothing.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
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
    shm::FileDescriptor socket_;
    bool connected_ = false;
};

inline std::vector<IdlePeer> idle_peers(const std::string& path, int count) {
    std::vector<IdlePeer> peers;
    peers.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) peers.emplace_back(path);
    return peers;
}

inline std::ptrdiff_t open_ones(const std::vector<IdlePeer>& peers) {
    return std::count_if(peers.begin(), peers.end(), [](const IdlePeer& each) { return each.is_open(); });
}

}  // namespace croupier::testing

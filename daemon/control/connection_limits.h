// How many connections the ZMQ sockets take. libzmq has no bound of its own, and aborts the process where an
// ipc socket accepts without a descriptor to spare (docs/decisions/0022-connections-are-bounded.md).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>

namespace croupier::daemon {

struct ConnectionLimits {
    std::size_t each;  // of one uid over ipc, of one address over tcp
    std::size_t all;
};

// What the daemon itself may have open at once.
std::size_t own_files(std::size_t sessions, std::size_t samplers);
// Of `open_files` (RLIMIT_NOFILE) those that are left beside its `own`, but kFewestConnections at least.
// `each` is at most half of them, so that no one peer takes what others need.
constexpr std::size_t kFewestConnections = 16;
ConnectionLimits connection_limits(std::size_t open_files, std::size_t own, std::size_t each);

// In force for every accept() of this process from now on, in any thread; until then there is no limit. What
// is over it is closed at once, and the log says whose it was.
void limit_connections(const ConnectionLimits& limits);

// accept4 without a limit: for the HTTP server, which has one of its own.
int accept_uncounted(int listener, int flags);

// The connections that are open, by their descriptors. Nothing tells when one is closed: descriptors that
// have become others are found when a limit is reached.
class ConnectionBook {
  public:
    struct Peer {
        std::string name;  // "uid 1000", "address 10.0.0.7"
        bool over_tcp = false;
    };

    void set_limits(const ConnectionLimits& limits) { limits_ = limits; }
    // The limit that is reached, and the socket has to be closed; nothing: it is counted from now on.
    std::optional<std::size_t> refusal(int socket, const Peer& peer);

  private:
    struct Entry {
        ino_t inode;
        Peer peer;
    };

    std::optional<std::size_t> limit_reached(const Peer& peer) const;
    void count(const Entry& entry, std::size_t change);
    void forget_closed();

    ConnectionLimits limits_{static_cast<std::size_t>(-1), static_cast<std::size_t>(-1)};
    std::unordered_map<int, Entry> entries_;
    std::unordered_map<std::string, std::size_t> of_peer_;
    std::size_t over_tcp_ = 0;
    std::chrono::steady_clock::time_point next_look_;
};

}  // namespace croupier::daemon

#include "daemon/control/connection_limits.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>

#include "event_log/event_log.h"

namespace croupier::daemon {
namespace {

using Clock = std::chrono::steady_clock;
using event_log::Event;

// Locks, the plane, the event loop, libzmq's own, files that are read at times; and the HTTP server's.
constexpr std::size_t kOwnFiles = 64 + 72;
// A session's segment, and once more while statistics are taken or a segment is made.
constexpr std::size_t kFilesOfSession = 2;
// The line over which it is given segments.
constexpr std::size_t kFilesOfSampler = 1;
// Connections that are closed for one that is let in: a bound on how long other peers of the same thread
// wait.
constexpr int kMostClosedAtOnce = 64;
// libzmq asks again at once while a connection waits, so without descriptors it would use a whole core.
constexpr std::chrono::milliseconds kPauseWithoutDescriptors{10};
constexpr std::chrono::milliseconds kLeastBetweenLooks{10};
// Looks for closed connections take at most this part of the thread's time.
constexpr int kPartOfLooks = 10;

// One host has all addresses of its /64, so these count together.
std::string address_of(const sockaddr_storage& from) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (from.ss_family == AF_INET) {
        const auto& inet = reinterpret_cast<const sockaddr_in&>(from);
        ::inet_ntop(AF_INET, &inet.sin_addr, text.data(), text.size());
        return std::string("address ") + text.data();
    }
    in6_addr network = reinterpret_cast<const sockaddr_in6&>(from).sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&network) == 0) std::fill(network.s6_addr + 8, network.s6_addr + 16, 0);
    ::inet_ntop(AF_INET6, &network, text.data(), text.size());
    return std::string("address ") + text.data();
}

// Nothing: it is gone already.
std::optional<ConnectionBook::Peer> peer_of(int socket) {
    sockaddr_storage from{};
    socklen_t length = sizeof(from);
    if (::getpeername(socket, reinterpret_cast<sockaddr*>(&from), &length) != 0) return std::nullopt;
    if (from.ss_family != AF_UNIX) return ConnectionBook::Peer{address_of(from), true};
    ucred credentials{};
    length = sizeof(credentials);
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return std::nullopt;
    return ConnectionBook::Peer{"uid " + std::to_string(credentials.uid), false};
}

struct Gate {
    std::mutex mutex;
    ConnectionBook book;
};

Gate& gate() {
    static Gate one;
    return one;
}

bool is_let_in(int socket) {
    const auto peer = peer_of(socket);
    if (!peer) return false;
    Gate& at = gate();
    const std::lock_guard lock(at.mutex);
    const auto limit = at.book.refusal(socket, *peer);
    if (!limit) return true;
    event_log::write(Event::connection_refused, {{"peer", peer->name}, {"limit", *limit}},
                     "closed a new connection of {}: the limit is {} (control.connections_per_peer, or what "
                     "the limit of open files leaves)",
                     peer->name, *limit);
    return false;
}

bool is_own_mistake(int error) {
    return error == EBADF || error == EINVAL || error == ENOTSOCK || error == EFAULT;
}

// What libzmq's listeners tolerate: ECONNABORTED means that the peer was gone before it was accepted.
int without_connection(int error) {
    if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM)
        std::this_thread::sleep_for(kPauseWithoutDescriptors);
    errno = error == EAGAIN || error == EINTR || is_own_mistake(error) ? error : ECONNABORTED;
    return -1;
}

int accept_within_limits(int listener, sockaddr* address, socklen_t* length, int flags) {
    const socklen_t room = length == nullptr ? 0 : *length;
    for (int closed = 0; closed < kMostClosedAtOnce; ++closed) {
        if (length != nullptr) *length = room;
        const auto accepted = ::syscall(SYS_accept4, listener, address, length, flags);
        if (accepted < 0) return without_connection(errno);
        const int socket = static_cast<int>(accepted);
        if (is_let_in(socket)) return socket;
        ::close(socket);
        // The listener may be one that blocks.
        pollfd next{listener, POLLIN, 0};
        if (::poll(&next, 1, 0) <= 0) break;
    }
    errno = ECONNABORTED;
    return -1;
}

}  // namespace

std::size_t own_files(std::size_t sessions, std::size_t samplers) {
    return kOwnFiles + kFilesOfSession * sessions + kFilesOfSampler * samplers;
}

ConnectionLimits connection_limits(std::size_t open_files, std::size_t own, std::size_t each) {
    const std::size_t left = open_files - std::min(open_files, own);
    const std::size_t all = std::max(left, kFewestConnections);
    return {std::min(each, all / 2), all};
}

void limit_connections(const ConnectionLimits& limits) {
    Gate& at = gate();
    const std::lock_guard lock(at.mutex);
    at.book.set_limits(limits);
}

int accept_uncounted(int listener, int flags) {
    return static_cast<int>(::syscall(SYS_accept4, listener, nullptr, nullptr, flags));
}

std::optional<std::size_t> ConnectionBook::refusal(int socket, const Peer& peer) {
    // Its number was a connection's that is closed by now.
    if (const auto before = entries_.find(socket); before != entries_.end()) {
        count(before->second, static_cast<std::size_t>(-1));
        entries_.erase(before);
    }
    if (limit_reached(peer)) forget_closed();
    if (const auto limit = limit_reached(peer)) return limit;
    struct stat status {};
    ::fstat(socket, &status);
    const Entry entry{status.st_ino, peer};
    count(entry, 1);
    entries_.emplace(socket, entry);
    return std::nullopt;
}

std::optional<std::size_t> ConnectionBook::limit_reached(const Peer& peer) const {
    const auto own = of_peer_.find(peer.name);
    if (own != of_peer_.end() && own->second >= limits_.each) return limits_.each;
    // An address proves nothing yet, so those of tcp leave room for the users of this host.
    if (peer.over_tcp && over_tcp_ >= limits_.all / 2) return limits_.all / 2;
    return entries_.size() >= limits_.all ? std::optional(limits_.all) : std::nullopt;
}

void ConnectionBook::count(const Entry& entry, std::size_t change) {
    if (entry.peer.over_tcp) over_tcp_ += change;
    const auto of_peer = of_peer_.try_emplace(entry.peer.name, 0).first;
    of_peer->second += change;
    if (of_peer->second == 0) of_peer_.erase(of_peer);
}

void ConnectionBook::forget_closed() {
    const auto begin = Clock::now();
    if (begin < next_look_) return;
    for (auto entry = entries_.begin(); entry != entries_.end();) {
        struct stat status {};
        const bool is_open = ::fstat(entry->first, &status) == 0 && S_ISSOCK(status.st_mode) &&
                             status.st_ino == entry->second.inode;
        if (is_open) {
            ++entry;
            continue;
        }
        count(entry->second, static_cast<std::size_t>(-1));
        entry = entries_.erase(entry);
    }
    const auto end = Clock::now();
    next_look_ = end + std::max<Clock::duration>(kLeastBetweenLooks, (end - begin) * kPartOfLooks);
}

}  // namespace croupier::daemon

// libzmq calls these instead of the C library's, because a program's own symbols come before those of the
// libraries that it loads.
extern "C" {
__attribute__((visibility("default"))) int accept4(int listener, sockaddr* address, socklen_t* length,
                                                   int flags) {
    return croupier::daemon::accept_within_limits(listener, address, length, flags);
}
__attribute__((visibility("default"))) int accept(int listener, sockaddr* address, socklen_t* length) {
    return croupier::daemon::accept_within_limits(listener, address, length, 0);
}
}

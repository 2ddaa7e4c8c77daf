// Whether another host of the same engine can be reached, and how long a round to it takes.
#include <netdb.h>
#include <poll.h>
#include <spdlog/fmt/fmt.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/endpoint.h"
#include "shm/file.h"
#include "tools/doctor/checks.h"

namespace croupier::tools::doctor {
namespace {

using std::chrono::steady_clock;

constexpr int kRounds = 21;
// A step's records and its logits start on their ways at about the same time. Later records are waited for.
constexpr double kSlowRoundMs = 2;
constexpr std::string_view kScheme = "tcp://";

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// The error of a connection, 0 where there is one, ETIMEDOUT where nothing came back in time.
int connect_error(const addrinfo& address, int patience_ms) {
    const shm::FileDescriptor file(
        ::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol));
    if (!file.valid()) return errno;
    if (::connect(file.get(), address.ai_addr, address.ai_addrlen) == 0) return 0;
    if (errno != EINPROGRESS) return errno;
    pollfd connected{file.get(), POLLOUT, 0};
    if (::poll(&connected, 1, patience_ms) != 1) return ETIMEDOUT;
    int error = 0;
    socklen_t size = sizeof(error);
    ::getsockopt(file.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    return error;
}

struct Rounds {
    int error = 0;  // of the last connection
    std::vector<double> ms;
    double median() {
        std::nth_element(ms.begin(), ms.begin() + static_cast<std::ptrdiff_t>(ms.size() / 2), ms.end());
        return ms[ms.size() / 2];
    }
};

// A port where nothing listens answers as fast as one where something does.
Rounds measure(const addrinfo& address, int patience_ms) {
    Rounds rounds;
    for (int i = 0; i < kRounds; ++i) {
        const auto begin = steady_clock::now();
        rounds.error = connect_error(address, patience_ms);
        if (rounds.error != 0 && rounds.error != ECONNREFUSED) break;
        rounds.ms.push_back(std::chrono::duration<double, std::milli>(steady_clock::now() - begin).count());
    }
    return rounds;
}

Finding judge(const std::string& peer, Rounds rounds, int patience_ms) {
    if (rounds.error != 0 && rounds.error != ECONNREFUSED) {
        const std::string why = rounds.error == ETIMEDOUT ? fmt::format("no answer within {} ms", patience_ms)
                                                          : std::string(std::strerror(rounds.error));
        return broken(fmt::format("{} cannot be reached: {}", peer, why),
                      "let the hosts' firewalls and routes pass TCP in both directions; "
                      "docs/several-hosts.md says which ports",
                      {{"peer", peer}, {"error", std::string(std::strerror(rounds.error))}});
    }
    const double round_ms = rounds.median();
    const std::vector<Fact> facts = {{"peer", peer}, {"round_ms", round_ms}};
    const std::string what = fmt::format(
        "{} {}, a round takes {:.2f} ms", peer,
        rounds.error == 0 ? "accepts connections" : "can be reached, and nothing listens there now",
        round_ms);
    if (round_ms <= kSlowRoundMs) return fine(what, facts);
    return slower(what,
                  fmt::format("a step may take so much longer: less than {} ms would be right, as in one "
                              "data centre",
                              kSlowRoundMs),
                  facts);
}

}  // namespace

Finding check_peer(const Examined& examined) {
    std::string peer = examined.request.peer;
    if (peer.empty()) return fine("no other host was named (--peer)");
    if (peer.starts_with(kScheme)) peer.erase(0, kScheme.size());
    const auto colon = peer.rfind(':');
    if (colon == std::string::npos || colon == 0 || colon + 1 == peer.size()) {
        return broken(fmt::format("--peer is {}; HOST:PORT would be right", examined.request.peer),
                      "name an address of the other host, and a port");
    }
    std::string host = peer.substr(0, colon);
    // As libzmq looks it up for the relay, which takes the first address.
    addrinfo wanted{};
    wanted.ai_family = proto::takes_ipv6(host) ? AF_INET6 : AF_INET;
    wanted.ai_socktype = SOCK_STREAM;
    wanted.ai_flags = AI_NUMERICSERV | AI_V4MAPPED;
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    addrinfo* found = nullptr;
    if (const int unknown = ::getaddrinfo(host.c_str(), peer.c_str() + colon + 1, &wanted, &found);
        unknown != 0) {
        return broken(fmt::format("{} is no address: {}", peer, ::gai_strerror(unknown)),
                      "name the other host by a name that this one resolves to an IPv4 address, or by its "
                      "address, IPv6 in [ ]");
    }
    const Addresses addresses(found, &::freeaddrinfo);
    const auto patience_ms = static_cast<int>(examined.request.patience_ms);
    return judge(peer, measure(*addresses, patience_ms), patience_ms);
}

}  // namespace croupier::tools::doctor

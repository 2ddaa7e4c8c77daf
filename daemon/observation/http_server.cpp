#include "daemon/observation/http_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "daemon/control/connection_limits.h"

namespace croupier::daemon {
namespace {

using Clock = std::chrono::steady_clock;

// Beyond them the connection that has waited longest goes.
constexpr std::size_t kMostConnections = 64;
constexpr std::size_t kMostBytesWaiting = std::size_t{64} << 20U;
// For what a peer still sends when its answer is out.
constexpr std::chrono::seconds kMostAfterAnswer{1};

shm::Error cannot_listen(const std::string& listen, const std::string& why) {
    return {shm::Errc::system_error, "cannot serve metrics on " + listen + " (metrics.listen): " + why};
}

shm::Error cannot_bind(const std::string& listen, int error) {
    if (error == EADDRNOTAVAIL) {
        return cannot_listen(listen,
                             "this host does not have that address; set it to one that `ip address` "
                             "lists, or off");
    }
    if (error != EADDRINUSE) {
        return cannot_listen(listen, shm::system_failure("cannot bind", listen, error).message);
    }
    return {shm::Errc::already_held,
            "cannot serve metrics on " + listen +
                ": another program listens there; set metrics.listen to another address, or off"};
}

sockaddr_storage bound_address(const shm::FileDescriptor& listener) {
    sockaddr_storage bound{};
    socklen_t length = sizeof(bound);
    ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound), &length);
    return bound;
}

// `for_this_host`: every interface is said as this host's own.
std::string address_of(const sockaddr_storage& bound, bool for_this_host) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (bound.ss_family == AF_INET6) {
        auto address = reinterpret_cast<const sockaddr_in6&>(bound);
        if (for_this_host && IN6_IS_ADDR_UNSPECIFIED(&address.sin6_addr))
            address.sin6_addr = in6addr_loopback;
        ::inet_ntop(AF_INET6, &address.sin6_addr, text.data(), text.size());
        return "[" + std::string(text.data()) + "]:" + std::to_string(ntohs(address.sin6_port));
    }
    auto address = reinterpret_cast<const sockaddr_in&>(bound);
    if (for_this_host && address.sin_addr.s_addr == INADDR_ANY)
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
    return std::string(text.data()) + ":" + std::to_string(ntohs(address.sin_port));
}

std::string host_of(const std::string& listen) {
    const std::string host = listen.substr(0, listen.rfind(':'));
    return host.starts_with('[') && host.ends_with(']') ? host.substr(1, host.size() - 2) : host;
}

bool is_numeric(const std::string& host) {
    in6_addr address{};
    return ::inet_pton(AF_INET, host.c_str(), &address) == 1 ||
           ::inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

shm::Result<shm::FileDescriptor> listen_on(const std::string& listen) {
    const auto colon = listen.rfind(':');
    const std::string host = host_of(listen);
    addrinfo wanted{};
    wanted.ai_socktype = SOCK_STREAM;
    wanted.ai_flags = AI_PASSIVE;
    addrinfo* found = nullptr;
    if (const int error = ::getaddrinfo(host.c_str(), listen.c_str() + colon + 1, &wanted, &found)) {
        return cannot_listen(listen, ::gai_strerror(error));
    }
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, &::freeaddrinfo);
    shm::FileDescriptor file(
        ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, found->ai_protocol));
    const int on = 1;
    ::setsockopt(file.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (!file.valid() || ::bind(file.get(), found->ai_addr, found->ai_addrlen) != 0 ||
        ::listen(file.get(), static_cast<int>(kMostConnections)) != 0) {
        return cannot_bind(listen, errno);
    }
    return file;
}

}  // namespace

struct HttpServer::Connection {
    shm::FileDescriptor socket;
    std::string request;
    std::string answer;
    std::size_t sent = 0;
    bool is_whole = false;  // the request
    bool answered = false;
    std::unique_ptr<LateReply> later;         // what it waits for, or reads
    std::optional<Clock::time_point> leaves;  // at the latest; all of the answer is out

    bool waits() const { return later != nullptr && !answered; }
    bool awaits_turn() const { return is_whole && !answered && later == nullptr; }
    void answer_with(const HttpReply& reply) {
        answer = http_answer(request, reply);
        answered = true;
    }
};

HttpServer::HttpServer(shm::FileDescriptor listener, shm::FileDescriptor stop, HttpHosts hosts,
                       HttpRoutes routes, int late_event, std::function<void()> each_tick)
    : listener_(std::move(listener)),
      stop_(std::move(stop)),
      hosts_(std::move(hosts)),
      routes_(std::move(routes)),
      late_event_(late_event),
      each_tick_(std::move(each_tick)),
      thread_([this] { serve(); }) {}

HttpServer::~HttpServer() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(stop_.get(), &one, sizeof(one));
    thread_.join();
}

shm::Result<bool> can_serve_at(const std::string& listen) {
    // A name may take its resolver's time.
    if (!is_numeric(host_of(listen))) return true;
    CROUPIER_TRY(listen_on(listen));
    return true;
}

shm::Result<std::unique_ptr<HttpServer>> HttpServer::start(const std::string& listen,
                                                           const std::vector<std::string>& hosts,
                                                           HttpRoutes routes, int late_event,
                                                           std::function<void()> each_tick) {
    CROUPIER_TRY_VALUE(listener, listen_on(listen));
    shm::FileDescriptor stop(::eventfd(0, EFD_CLOEXEC));
    if (!stop.valid()) return shm::system_failure("cannot open", "eventfd", errno);
    return std::unique_ptr<HttpServer>(new HttpServer(std::move(listener), std::move(stop),
                                                      HttpHosts(listen, hosts), std::move(routes), late_event,
                                                      std::move(each_tick)));
}

std::string HttpServer::address() const {
    return address_of(bound_address(listener_), false);
}

std::string HttpServer::page() const {
    return "http://" + address_of(bound_address(listener_), true) + "/";
}

void HttpServer::serve() {
    auto next_tick = Clock::now();
    std::vector<pollfd> items;
    while (true) {
        if (Clock::now() >= next_tick) {
            each_tick_();
            // From now on, not from when it was due: after a freeze of the host it is called once.
            next_tick = Clock::now() + kTick;
        }
        items = {{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}, {late_event_, POLLIN, 0}};
        const std::size_t first = items.size();
        for (const Connection& each : connections_) {
            const short wanted = each.answered && !each.leaves ? POLLOUT : POLLIN;
            items.push_back({each.socket.get(), each.awaits_turn() ? short{0} : wanted, 0});
        }
        const bool goes_on = std::any_of(connections_.begin(), connections_.end(),
                                         [](const Connection& each) { return each.awaits_turn(); });
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(next_tick - Clock::now()).count();
        const int patience = goes_on ? 0 : std::max(0, static_cast<int>(left));
        if (::poll(items.data(), items.size(), patience) < 0) continue;
        if (items[0].revents != 0) return;
        std::vector<Connection> kept;
        for (std::size_t i = 0; i < connections_.size(); ++i) {
            Connection& each = connections_[i];
            const bool is_quiet = items[i + first].revents == 0 || each.answered;
            if (is_quiet || (each.waits() ? is_heard(each) : receive(each))) kept.push_back(std::move(each));
        }
        connections_ = std::move(kept);
        if (items[2].revents != 0) take_late_replies();
        answer_requests();
        std::erase_if(connections_, [](Connection& each) {
            return each.answered && !(each.leaves ? hear_out(each) : send_rest(each));
        });
        bound_memory();
        if (items[1].revents != 0) accept_all();
    }
}

void HttpServer::accept_all() {
    for (std::size_t i = 0; i < kMostConnections; ++i) {
        shm::FileDescriptor socket(accept_uncounted(listener_.get(), SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!socket.valid()) return;
        if (connections_.size() >= kMostConnections) connections_.erase(connections_.begin());
        connections_.emplace_back();
        connections_.back().socket = std::move(socket);
    }
}

void HttpServer::take_late_replies() {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto got = ::read(late_event_, &count, sizeof(count));
    for (Connection& each : connections_) {
        if (!each.waits()) continue;
        if (const auto reply = each.later->take()) each.answer_with(*reply);
    }
}

// One large answer a turn, behind all others: a probe does not wait for who reads fifteen minutes.
void HttpServer::answer_requests() {
    const auto answer = [&](Connection& to) {
        HttpReply reply = reply_to(to.request, routes_, hosts_);
        to.later = std::move(reply.later);
        if (!to.waits()) to.answer_with(reply);
    };
    Connection* large = nullptr;
    for (Connection& each : connections_) {
        if (!each.awaits_turn()) continue;
        if (!wants_large(each.request, routes_)) {
            answer(each);
        } else if (large == nullptr) {
            large = &each;
        }
    }
    if (large != nullptr) answer(*large);
}

void HttpServer::bound_memory() {
    std::size_t waiting = 0;
    for (const Connection& each : connections_) waiting += each.answer.size();
    while (waiting > kMostBytesWaiting) {
        waiting -= connections_.front().answer.size();
        connections_.erase(connections_.begin());
    }
}

// False: its peer is gone.
bool HttpServer::receive(Connection& connection) {
    std::array<char, 1024> buffer{};
    const auto got = ::recv(connection.socket.get(), buffer.data(), buffer.size(), 0);
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
    connection.request.append(buffer.data(), static_cast<std::size_t>(got));
    connection.is_whole = connection.request.find("\r\n\r\n") != std::string::npos ||
                          connection.request.size() >= kLongestRequest;
    return true;
}

// False: the peer of a late reply is gone, or says what nobody asked for.
bool HttpServer::is_heard(const Connection& connection) {
    char byte = 0;
    const auto got = ::recv(connection.socket.get(), &byte, sizeof(byte), 0);
    return got < 0 && (errno == EAGAIN || errno == EINTR);
}

// False: it is done with.
bool HttpServer::send_rest(Connection& connection) {
    const std::string_view rest = std::string_view(connection.answer).substr(connection.sent);
    const auto sent = ::send(connection.socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    connection.sent += static_cast<std::size_t>(sent);
    if (connection.sent < connection.answer.size()) return true;
    connection.leaves = Clock::now() + kMostAfterAnswer;
    connection.answer = {};
    return ::shutdown(connection.socket.get(), SHUT_WR) == 0 && hear_out(connection);
}

// A close while bytes come in resets the connection, and the peer loses the answer. False: it is done with.
bool HttpServer::hear_out(Connection& connection) {
    std::array<char, 16384> unheard{};
    const auto got = ::recv(connection.socket.get(), unheard.data(), unheard.size(), 0);
    const bool is_open = got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
    return is_open && Clock::now() < *connection.leaves;
}

}  // namespace croupier::daemon

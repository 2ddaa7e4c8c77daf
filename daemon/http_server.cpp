#include "daemon/http_server.h"

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
#include <utility>

namespace croupier::daemon {
namespace {

using Clock = std::chrono::steady_clock;

// Beyond them the connection that has waited longest goes.
constexpr std::size_t kMostConnections = 64;
constexpr std::size_t kMostBytesWaiting = std::size_t{64} << 20U;

shm::Error cannot_listen(const std::string& listen, const std::string& why) {
    return {shm::Errc::system_error,
            "cannot serve metrics on " + listen + " (metrics.listen): is the port taken? " + why};
}

shm::Result<shm::FileDescriptor> listen_on(const std::string& listen) {
    const auto colon = listen.rfind(':');
    std::string host = listen.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
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
        return cannot_listen(listen, shm::system_failure("cannot bind", listen, errno).message);
    }
    return file;
}

}  // namespace

struct HttpServer::Connection {
    shm::FileDescriptor socket;
    std::string request;
    std::string answer;
    std::size_t sent = 0;
    bool answered = false;
    std::unique_ptr<LateReply> later;  // what it waits for, or reads

    bool waits() const { return later != nullptr && !answered; }
    void answer_with(const HttpReply& reply) {
        answer = http_answer(request, reply);
        answered = true;
    }
};

HttpServer::HttpServer(shm::FileDescriptor listener, shm::FileDescriptor stop, HttpRoutes routes,
                       int late_event, std::function<void()> each_tick)
    : listener_(std::move(listener)),
      stop_(std::move(stop)),
      routes_(std::move(routes)),
      late_event_(late_event),
      each_tick_(std::move(each_tick)),
      thread_([this] { serve(); }) {}

HttpServer::~HttpServer() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(stop_.get(), &one, sizeof(one));
    thread_.join();
}

shm::Result<std::unique_ptr<HttpServer>> HttpServer::start(const std::string& listen, HttpRoutes routes,
                                                           int late_event, std::function<void()> each_tick) {
    CROUPIER_TRY_VALUE(listener, listen_on(listen));
    shm::FileDescriptor stop(::eventfd(0, EFD_CLOEXEC));
    if (!stop.valid()) return shm::system_failure("cannot open", "eventfd", errno);
    return std::unique_ptr<HttpServer>(new HttpServer(std::move(listener), std::move(stop), std::move(routes),
                                                      late_event, std::move(each_tick)));
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
            const short wanted = each.answered ? POLLOUT : POLLIN;
            items.push_back({each.socket.get(), wanted, 0});
        }
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(next_tick - Clock::now()).count();
        if (::poll(items.data(), items.size(), std::max(0, static_cast<int>(left))) < 0) continue;
        if (items[0].revents != 0) return;
        std::vector<Connection> kept;
        for (std::size_t i = 0; i < connections_.size(); ++i) {
            if (items[i + first].revents == 0 || go_on(connections_[i]))
                kept.push_back(std::move(connections_[i]));
        }
        connections_ = std::move(kept);
        if (items[2].revents != 0) take_late_replies();
        bound_memory();
        if (items[1].revents != 0) accept_one();
    }
}

void HttpServer::accept_one() {
    shm::FileDescriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) return;
    if (connections_.size() >= kMostConnections) connections_.erase(connections_.begin());
    connections_.emplace_back();
    connections_.back().socket = std::move(socket);
}

void HttpServer::take_late_replies() {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto got = ::read(late_event_, &count, sizeof(count));
    for (Connection& each : connections_) {
        if (!each.waits()) continue;
        if (const auto reply = each.later->take()) each.answer_with(*reply);
    }
}

void HttpServer::bound_memory() {
    std::size_t waiting = 0;
    for (const Connection& each : connections_) waiting += each.answer.size();
    while (waiting > kMostBytesWaiting) {
        waiting -= connections_.front().answer.size();
        connections_.erase(connections_.begin());
    }
}

// False: it is done with.
bool HttpServer::go_on(Connection& connection) const {
    if (connection.waits()) {
        // Its peer is gone, or says what nobody asked for.
        char byte = 0;
        const auto got = ::recv(connection.socket.get(), &byte, sizeof(byte), 0);
        return got < 0 && (errno == EAGAIN || errno == EINTR);
    }
    if (!connection.answered) {
        std::array<char, 1024> buffer{};
        const auto got = ::recv(connection.socket.get(), buffer.data(), buffer.size(), 0);
        if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
        connection.request.append(buffer.data(), static_cast<std::size_t>(got));
        const bool whole = connection.request.find("\r\n\r\n") != std::string::npos;
        if (!whole && connection.request.size() < kLongestRequest) return true;
        HttpReply reply = reply_to(connection.request, routes_);
        connection.later = std::move(reply.later);
        if (connection.waits()) return true;
        connection.answer_with(reply);
    }
    const std::string_view rest = std::string_view(connection.answer).substr(connection.sent);
    const auto sent = ::send(connection.socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    connection.sent += static_cast<std::size_t>(sent);
    return connection.sent < connection.answer.size();
}

}  // namespace croupier::daemon

#include "daemon/http_server.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <prometheus/text_serializer.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <utility>

#include "daemon/metrics.h"
#include "shm/clock.h"
#include "shm/snapshot.h"

namespace croupier::daemon {
namespace {

// The supervisor turns at least every 25 ms; a second without a turn is trouble, five are a hang.
constexpr std::uint64_t kLivenessLimitNs = 5'000'000'000;
// Beyond it the connection that has waited longest for its request goes.
constexpr std::size_t kMostConnections = 64;
constexpr std::size_t kLongestRequest = 8192;

constexpr const char* kMetricsText = "text/plain; version=0.0.4; charset=utf-8";
// Each may be tens of megabytes, until its peer has read it.
constexpr std::ptrdiff_t kMostExplanations = 16;
// What an explanation shows is a user's: no cache keeps it, no other page frames it, and whatever stands in
// it runs nothing.
constexpr const char* kPrivate =
    "Cache-Control: no-store\r\nContent-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; "
    "frame-ancestors 'none'\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n";

struct Answer {
    int status = 200;
    std::string body;
    std::string type = kMetricsText;
    const char* more = "";  // headers
};

const char* reason(int status) {
    switch (status) {
        case 200:
            return "OK";
        case 400:
            return "Bad Request";
        case 403:
            return "Forbidden";
        case 404:
            return "Not Found";
        case 405:
            return "Method Not Allowed";
        case 422:
            return "Unprocessable Content";
        case 431:
            return "Request Header Fields Too Large";
        case 500:
            return "Internal Server Error";
        case 504:
            return "Gateway Timeout";
        default:
            return "Service Unavailable";
    }
}

Answer metrics_page(const std::string& directory, const std::string& instance) {
    auto snapshot = shm::observe(directory, instance);
    if (!snapshot) return {503, "# " + snapshot.error().message + "\n"};
    return {200, prometheus::TextSerializer().Serialize(to_metrics(snapshot.value()))};
}

Answer livez_page(const Health& health) {
    const std::uint64_t age = shm::monotonic_ns() - health.last_turn_ns.load(std::memory_order_relaxed);
    if (age < kLivenessLimitNs) return {200, "ok\n"};
    return {503, "the supervisor has not turned for " + std::to_string(age / 1'000'000) + " ms\n"};
}

Answer readyz_page(const Health& health) {
    if (health.draining.load(std::memory_order_relaxed)) return {503, "draining\n"};
    if (!health.ready.load(std::memory_order_relaxed)) return {503, "not every sampler runs\n"};
    return {200, "ok\n"};
}

std::string to_http(const Answer& answer) {
    return "HTTP/1.1 " + std::to_string(answer.status) + " " + reason(answer.status) +
           "\r\nContent-Type: " + answer.type + "\r\nContent-Length: " + std::to_string(answer.body.size()) +
           "\r\n" + answer.more + "Connection: close\r\n\r\n" + answer.body;
}

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
    bool explains = false;
    ExplainRoute::Ticket awaits = 0;  // an explanation; 0: none
};

HttpServer::HttpServer(shm::FileDescriptor listener, shm::FileDescriptor stop, std::string shm_directory,
                       std::string instance, const Health& health, std::unique_ptr<ExplainRoute> explains)
    : listener_(std::move(listener)),
      stop_(std::move(stop)),
      shm_directory_(std::move(shm_directory)),
      instance_(std::move(instance)),
      health_(&health),
      explains_(std::move(explains)),
      thread_([this] { serve(); }) {}

HttpServer::~HttpServer() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(stop_.get(), &one, sizeof(one));
    thread_.join();
}

shm::Result<std::unique_ptr<HttpServer>> HttpServer::start(const std::string& listen,
                                                           const std::string& shm_directory,
                                                           const std::string& instance, const Health& health,
                                                           std::unique_ptr<ExplainRoute> explains) {
    CROUPIER_TRY_VALUE(listener, listen_on(listen));
    shm::FileDescriptor stop(::eventfd(0, EFD_CLOEXEC));
    if (!stop.valid()) return shm::system_failure("cannot open", "eventfd", errno);
    return std::unique_ptr<HttpServer>(new HttpServer(std::move(listener), std::move(stop), shm_directory,
                                                      instance, health, std::move(explains)));
}

void HttpServer::serve() {
    std::vector<pollfd> items;
    while (true) {
        items = {{stop_.get(), POLLIN, 0},
                 {listener_.get(), POLLIN, 0},
                 {explains_ ? explains_->event_fd() : -1, POLLIN, 0}};
        const std::size_t first = items.size();
        for (const Connection& each : connections_) {
            const short wanted = each.answered ? POLLOUT : POLLIN;
            items.push_back({each.socket.get(), wanted, 0});
        }
        if (::poll(items.data(), items.size(), -1) < 0) continue;
        if (items[0].revents != 0) return;
        std::vector<Connection> kept;
        for (std::size_t i = 0; i < connections_.size(); ++i) {
            if (items[i + first].revents == 0 || go_on(connections_[i])) {
                kept.push_back(std::move(connections_[i]));
            } else {
                close(connections_[i]);
            }
        }
        connections_ = std::move(kept);
        if (items[2].revents != 0) take_explanations();
        if (items[1].revents != 0) accept_one();
    }
}

void HttpServer::accept_one() {
    shm::FileDescriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) return;
    if (connections_.size() >= kMostConnections) {
        close(connections_.front());
        connections_.erase(connections_.begin());
    }
    Connection connection;
    connection.socket = std::move(socket);
    connections_.push_back(std::move(connection));
}

void HttpServer::close(Connection& connection) const {
    if (connection.awaits != 0) explains_->forget(connection.awaits);
}

void HttpServer::take_explanations() {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto got = ::read(explains_->event_fd(), &count, sizeof(count));
    for (Connection& each : connections_) {
        if (each.awaits == 0) continue;
        auto reply = explains_->take(each.awaits);
        if (!reply) continue;
        each.awaits = 0;
        each.answer = to_http({reply->status, std::move(reply->body), std::move(reply->type), kPrivate});
        each.answered = true;
    }
}

bool HttpServer::is_awaited(const Connection& connection) const {
    char byte = 0;
    const auto got = ::recv(connection.socket.get(), &byte, sizeof(byte), 0);
    return got < 0 && (errno == EAGAIN || errno == EINTR);
}

// False: it is done with.
bool HttpServer::go_on(Connection& connection) const {
    if (connection.awaits != 0) return is_awaited(connection);
    if (!connection.answered) {
        std::array<char, 1024> buffer{};
        const auto got = ::recv(connection.socket.get(), buffer.data(), buffer.size(), 0);
        if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
        connection.request.append(buffer.data(), static_cast<std::size_t>(got));
        const bool whole = connection.request.find("\r\n\r\n") != std::string::npos;
        if (!whole && connection.request.size() < kLongestRequest) return true;
        answer(connection, whole);
        if (!connection.answered) return true;
    }
    const std::string& answer = connection.answer;
    const auto sent = ::send(connection.socket.get(), answer.data() + connection.sent,
                             answer.size() - connection.sent, MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    connection.sent += static_cast<std::size_t>(sent);
    return connection.sent < answer.size();
}

std::ptrdiff_t HttpServer::explanations() const {
    return std::count_if(connections_.begin(), connections_.end(),
                         [](const Connection& each) { return each.explains; });
}

void HttpServer::answer(Connection& connection, bool whole) const {
    const std::string& request = connection.request;
    const auto method_ends = request.find(' ');
    const auto target_ends = request.find_first_of(" \r", method_ends + 1);
    const std::string target = request.substr(method_ends + 1, target_ends - method_ends - 1);
    const std::string path = target.substr(0, target.find('?'));
    Answer answer{404, "there are /metrics, /livez, /readyz and /explain\n"};
    if (!whole) {
        answer = {431, "a request has at most " + std::to_string(kLongestRequest) + " bytes\n"};
    } else if (!request.starts_with("GET ")) {
        answer = {405, "only GET is answered\n"};
    } else if (path == "/metrics") {
        answer = metrics_page(shm_directory_, instance_);
    } else if (path == "/livez") {
        answer = livez_page(*health_);
    } else if (path == "/readyz") {
        answer = readyz_page(*health_);
    } else if (path == "/explain" && !explains_) {
        answer = {
            403, "this daemon explains no decisions; metrics.explain: true in its configuration allows it\n"};
    } else if (path == "/explain" && explanations() >= kMostExplanations) {
        answer = {503, "others wait for explanations, or do not read theirs; ask again in some seconds\n"};
    } else if (path == "/explain") {
        connection.explains = true;
        connection.awaits =
            explains_->ask(std::string_view(target).substr(std::min(target.size(), path.size() + 1)));
        return;
    }
    connection.answer = to_http(answer);
    connection.answered = true;
}

}  // namespace croupier::daemon

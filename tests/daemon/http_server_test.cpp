// The metrics port's server with routes of the test's own.
#include "daemon/observation/http_server.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/daemon/http_peer.h"

using namespace croupier;
using namespace croupier::testing;
using daemon::HttpRequest;

namespace {

// A request that is sent, and of which the answer is not read yet.
class Asked {
  public:
    Asked(std::uint16_t port, const std::string& request)
        : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        const timeval patience{20, 0};
        ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        const sockaddr_in address = loopback(port);
        REQUIRE(::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
        REQUIRE(::send(fd_, request.data(), request.size(), MSG_NOSIGNAL) ==
                static_cast<ssize_t>(request.size()));
    }
    ~Asked() { ::close(fd_); }
    Asked(const Asked&) = delete;
    Asked& operator=(const Asked&) = delete;

    // All of it; ends with what recv returned last: 0 where the server ended the connection in order.
    std::pair<std::string, ssize_t> answer() const {
        std::string text;
        std::array<char, 4096> buffer{};
        ssize_t got = 0;
        while ((got = ::recv(fd_, buffer.data(), buffer.size(), 0)) > 0)
            text.append(buffer.data(), static_cast<std::size_t>(got));
        return {text, got};
    }

  private:
    int fd_;
};

}  // namespace

TEST_CASE("a probe is answered before the large answers that were asked for earlier, but for one") {
    std::promise<void> held;
    std::promise<void> release;
    std::vector<std::string> order;
    const daemon::HttpRoutes routes = {
        {"/hold",
         [&](const HttpRequest&) {
             held.set_value();
             release.get_future().wait();
             return daemon::HttpReply{};
         }},
        {"/large",
         [&](const HttpRequest&) {
             order.emplace_back("large");
             return daemon::HttpReply{200, std::string(1U << 20U, 'x')};
         },
         true},
        {"/livez",
         [&](const HttpRequest&) {
             order.emplace_back("livez");
             return daemon::HttpReply{200, "ok\n"};
         }},
    };
    const std::uint16_t port = free_port();
    auto server = daemon::HttpServer::start("127.0.0.1:" + std::to_string(port), {}, routes, -1, [] {});
    REQUIRE(server);
    const Asked hold(port, get_request("/hold"));
    held.get_future().wait();
    std::vector<std::unique_ptr<Asked>> readers(30);
    for (auto& reader : readers) reader = std::make_unique<Asked>(port, get_request("/large"));
    const Asked probe(port, get_request("/livez"));
    release.set_value();
    CHECK(probe.answer().first.ends_with("ok\n"));
    for (const auto& reader : readers) CHECK(reader->answer().first.size() > (1U << 20U));
    server.value().reset();
    REQUIRE(order.size() == 31);
    CHECK(std::find(order.begin(), order.end(), "livez") - order.begin() <= 1);
}

TEST_CASE("a client that sends more than the server reads still gets its answer, and no reset") {
    const std::uint16_t port = free_port();
    const auto server = daemon::HttpServer::start("127.0.0.1:" + std::to_string(port), {}, {}, -1, [] {});
    REQUIRE(server);
    const std::string more(200'000, 'x');
    const Asked body(port, "POST / HTTP/1.1\r\nContent-Length: 200000\r\n\r\n" + more);
    const Asked line(port, "GET /" + more);
    for (const auto& [asked, status] : {std::pair(&body, " 405 "), std::pair(&line, " 431 ")}) {
        const auto [text, last] = asked->answer();
        CHECK(text.find(status) != std::string::npos);
        CHECK(last == 0);
    }
}

// A daemon that is asked over HTTP, and what it answers.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>

#include "testing/daemon_process.h"
#include "testing/small_engine.h"
#include "tests/daemon/loopback.h"

namespace croupier::testing {

// A request as it is, and all that comes back until the connection ends.
inline std::string http_exchange(std::uint16_t port, const std::string& request) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const timeval patience{20, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    const sockaddr_in address = loopback(port);
    REQUIRE(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
    REQUIRE(::send(fd, request.data(), request.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(request.size()));
    std::string answer;
    std::array<char, 4096> buffer{};
    for (ssize_t got = 0; (got = ::recv(fd, buffer.data(), buffer.size(), 0)) > 0;) {
        answer.append(buffer.data(), static_cast<std::size_t>(got));
    }
    ::close(fd);
    return answer;
}

inline std::string http_get(std::uint16_t port, const std::string& path) {
    return http_exchange(port, "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
}

inline std::string body_of(const std::string& answer) {
    return answer.substr(answer.find("\r\n\r\n") + 4);
}

// Samples by name and labels, as text lines have them.
inline std::map<std::string, double> samples(const std::string& page) {
    std::map<std::string, double> found;
    std::istringstream lines(body_of(page));
    for (std::string line; std::getline(lines, line);) {
        const auto blank = line.rfind(' ');
        if (line.empty() || line.front() == '#' || blank == std::string::npos) continue;
        found[line.substr(0, blank)] = std::strtod(line.c_str() + blank, nullptr);
    }
    return found;
}

// A daemon with a metrics port, and an engine of it.
struct Watched {
    std::uint16_t port = free_port();
    DaemonProcess daemon{kTwoSamplers, "metrics: {listen: \"127.0.0.1:" + std::to_string(port) + "\"}"};
    SmallEngine engine{daemon.endpoint(), "engine"};

    std::map<std::string, double> metrics() const { return samples(http_get(port, "/metrics")); }
};

}  // namespace croupier::testing

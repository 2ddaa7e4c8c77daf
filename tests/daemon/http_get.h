// What a daemon's HTTP server answers.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "tests/daemon/loopback.h"

namespace croupier::testing {

// A connection on which the request was sent.
inline int http_ask(std::uint16_t port, const std::string& path) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const timeval patience{20, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    const sockaddr_in address = loopback(port);
    const std::string request = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
        ::send(fd, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size())) {
        ::close(fd);
        throw std::runtime_error("port " + std::to_string(port) + " takes no request");
    }
    return fd;
}

// All that comes on it until its end, headers first.
inline std::string http_answer(int fd) {
    std::string answer;
    std::array<char, 4096> buffer{};
    for (ssize_t got = 0; (got = ::recv(fd, buffer.data(), buffer.size(), 0)) > 0;) {
        answer.append(buffer.data(), static_cast<std::size_t>(got));
    }
    ::close(fd);
    return answer;
}

inline std::string http_get(std::uint16_t port, const std::string& path) {
    return http_answer(http_ask(port, path));
}

}  // namespace croupier::testing

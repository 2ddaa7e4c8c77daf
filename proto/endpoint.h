// Where a ZMQ socket listens or connects: ipc://<path> or tcp://<host>:<port>.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace croupier::proto {

// What is wrong with it, as a sentence.
std::optional<std::string> endpoint_fault(const std::string& endpoint);

// Of tcp://<host>:<port>, before which a source address may stand, with a semicolon.
std::string tcp_host(const std::string& endpoint);

// Whether IPv6 is used: for an address in [ ], and, together with IPv4, for `*`. Names and interfaces are
// IPv4: libzmq takes the first address that it finds, and both ends must find the same kind.
bool takes_ipv6(std::string_view host);

}  // namespace croupier::proto

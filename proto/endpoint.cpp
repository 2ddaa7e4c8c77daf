#include "proto/endpoint.h"

namespace croupier::proto {

std::optional<std::string> endpoint_fault(const std::string& endpoint) {
    const std::string given = "endpoint is \"" + endpoint + "\", ";
    const bool over_tcp = endpoint.starts_with("tcp://");
    if (!over_tcp && !endpoint.starts_with("ipc://"))
        return given + "it should be ipc://<path> or tcp://<host>:<port>";
    const std::string host = over_tcp ? tcp_host(endpoint) : "";
    if (host.find(':') != std::string::npos && !host.starts_with('['))
        return given + "an IPv6 address should stand in brackets, as in tcp://[::1]:7001";
    return std::nullopt;
}

std::string tcp_host(const std::string& endpoint) {
    const auto begin = endpoint.find_last_of("/;") + 1;
    return endpoint.substr(begin, endpoint.rfind(':') - begin);
}

bool takes_ipv6(std::string_view host) {
    return host.starts_with('[') || host == "*";
}

}  // namespace croupier::proto

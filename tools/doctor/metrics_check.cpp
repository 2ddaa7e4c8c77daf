// Whether a daemon that is started could serve its metrics where its configuration says.
#include <netdb.h>
#include <spdlog/fmt/fmt.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "shm/file.h"
#include "tools/doctor/checks.h"

namespace croupier::tools::doctor {
namespace {

struct BindFault {
    int error = 0;  // 0: none
    std::string why;
};

// Bound and given back at once; nobody could connect meanwhile.
BindFault bind_fault(const std::string& listen) {
    const auto colon = listen.rfind(':');
    std::string host = listen.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    addrinfo wanted{};
    wanted.ai_socktype = SOCK_STREAM;
    // A name would be looked up, which may take seconds.
    wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV | (host == "localhost" ? 0 : AI_NUMERICHOST);
    addrinfo* found = nullptr;
    const int unknown = ::getaddrinfo(host.c_str(), listen.c_str() + colon + 1, &wanted, &found);
    if (unknown == EAI_NONAME) return {};
    if (unknown != 0) return {EADDRNOTAVAIL, ::gai_strerror(unknown)};
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, &::freeaddrinfo);
    const shm::FileDescriptor file(
        ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, found->ai_protocol));
    const int on = 1;
    ::setsockopt(file.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (file.valid() && ::bind(file.get(), found->ai_addr, found->ai_addrlen) == 0) return {};
    return {errno, std::strerror(errno)};
}

}  // namespace

Finding check_metrics_address(const Examined& examined) {
    const std::string& listen = examined.config.metrics.listen;
    const std::vector<Fact> facts = {{"listen", listen}};
    if (listen == "off") return fine("metrics.listen is off", facts);
    if (examined.daemon.state != DaemonState::absent)
        return skipped(fmt::format("a daemon may already be running and use {}", listen));
    const BindFault fault = bind_fault(listen);
    if (fault.error == 0) return fine(fmt::format("{} (metrics.listen) is free", listen), facts);
    if (fault.error == EACCES && examined.daemon_user.uid != own_account().uid)
        return skipped(fmt::format("only the daemon's user can try to bind {}", listen), "run it as root");
    const std::string what =
        fmt::format("the daemon will not start: {} (metrics.listen) is not available: {}", listen, fault.why);
    if (fault.error == EADDRINUSE && listen == config::Metrics().listen) {
        return fine(
            fmt::format(
                "another program listens at {} (metrics.listen): a daemon that starts now takes a free "
                "port and logs it",
                listen),
            facts);
    }
    if (fault.error == EADDRINUSE) {
        return broken(what,
                      fmt::format("set metrics.listen to another address, or off; ss -ltnp names the program "
                                  "that uses port {}",
                                  listen.substr(listen.rfind(':') + 1)),
                      facts);
    }
    return broken(what, "set metrics.listen to an address of this host (`ip address` lists them), or off",
                  facts);
}

}  // namespace croupier::tools::doctor

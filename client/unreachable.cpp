#include "client/unreachable.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <string_view>

namespace croupier::client {
namespace {

using shm::Errc;

constexpr std::string_view kIpc = "ipc://";
constexpr const char* kHowToStart =
    "; is croupierd running? `croupierd` starts one of this user's, systemctl start croupierd the host's; "
    "its control.endpoint should be this endpoint";

// The errno of a plain connection to the socket. ZMQ connects in the background and does not report it.
int connect_error(std::string_view path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof(address.sun_path)) return ENAMETOOLONG;
    std::copy(path.begin(), path.end(), address.sun_path);
    auto length = static_cast<socklen_t>(sizeof(address));
    if (path.front() == '@') {  // how ZMQ writes Linux's abstract names
        address.sun_path[0] = '\0';
        length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
    }
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return errno;
    const int error = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), length) == 0 ? 0 : errno;
    ::close(fd);
    return error;
}

int probe(const std::string& endpoint) {
    if (!endpoint.starts_with(kIpc)) return 0;
    return connect_error(std::string_view(endpoint).substr(kIpc.size()));
}

shm::Error forbidden(const std::string& endpoint) {
    return {Errc::permission_denied,
            "no permission to connect to " + endpoint +
                ": run as a user or group that the daemon's control.ipc_mode admits"};
}

}  // namespace

shm::Error request_cut_off(const std::string& endpoint, std::size_t bytes) {
    const std::size_t mebibytes = std::bit_ceil((bytes >> 20U) + 1);
    return {Errc::refused, "the daemon at " + endpoint + " ended the connection during a request of " +
                               std::to_string(bytes) +
                               " bytes, as it does above its control.max_message_bytes, which should be " +
                               std::to_string(mebibytes) +
                               "MiB or more for it; if the daemon was stopped, try again"};
}

std::optional<shm::Error> endpoint_forbidden(const std::string& endpoint) {
    const int error = probe(endpoint);
    if (error == EACCES || error == EPERM) return forbidden(endpoint);
    return std::nullopt;
}

shm::Error endpoint_silent(const std::string& endpoint, long waited_ms) {
    const std::string waited = " within " + std::to_string(waited_ms) + " ms";
    switch (probe(endpoint)) {
        case EACCES:
        case EPERM:
            return forbidden(endpoint);
        case ENOENT:
            return {Errc::not_found, "there was no socket at " + endpoint + waited + kHowToStart};
        case ECONNREFUSED:
            return {Errc::not_found, "nobody listened at " + endpoint + waited + kHowToStart};
        case ENAMETOOLONG:
            return {Errc::bad_argument, endpoint + " is not a usable socket path: it has 1 to " +
                                            std::to_string(sizeof(sockaddr_un::sun_path) - 1) + " bytes"};
        default:
            break;
    }
    if (endpoint.starts_with(kIpc)) {
        return {Errc::timed_out,
                "a process listens at " + endpoint + " but did not answer" + waited +
                    "; is it croupierd, and is it stopped or overloaded? `croupier ping` and "
                    "its log tell"};
    }
    return {Errc::timed_out,
            "no answer from " + endpoint + waited +
                "; check that croupierd listens there, that no firewall is between, and that "
                "its server key and its list of authorized keys match yours (a wrong key is "
                "answered with silence)"};
}

}  // namespace croupier::client

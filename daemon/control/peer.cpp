#include "daemon/control/peer.h"

#include <sys/types.h>
#include <unistd.h>

#include <charconv>
#include <optional>
#include <string_view>

namespace croupier::daemon {
namespace {

// A peer may send properties of its own, but none in the place of one that libzmq has set before: the
// address, always, and with CURVE what our gate answered.
std::string_view property(zmq::message_t& frame, const char* name) {
    const char* text = zmq_msg_gets(frame.handle(), name);
    return text == nullptr ? std::string_view() : std::string_view(text);
}

// On ipc the address ends in :uid:gid:pid, which SO_PEERCRED gave when the peer connected.
std::optional<uid_t> uid_of(std::string_view address) {
    for (int field = 0; field < 2; ++field) {
        const auto colon = address.rfind(':');
        if (colon == std::string_view::npos) return std::nullopt;
        address.remove_suffix(address.size() - colon);
    }
    const auto colon = address.rfind(':');
    if (colon == std::string_view::npos) return std::nullopt;
    address.remove_prefix(colon + 1);
    uid_t uid = 0;
    const auto [end, error] = std::from_chars(address.data(), address.data() + address.size(), uid);
    if (error != std::errc() || end != address.data() + address.size()) return std::nullopt;
    return uid;
}

}  // namespace

shm::Result<Peer> peer_of(zmq::message_t& frame, const std::string& endpoint) {
    // By the endpoint, not by what there is: on ipc nobody but the peer itself would have given a User-Id.
    if (endpoint.starts_with("tcp://")) {
        const auto key = property(frame, "User-Id");
        if (!key.empty()) return Peer{std::string(kKeyOwner) + std::string(key), false};
        return shm::fail(shm::Errc::permission_denied, "the message came over tcp without a CURVE key");
    }
    const auto uid = uid_of(property(frame, "Peer-Address"));
    if (!uid) {
        return shm::fail(shm::Errc::permission_denied,
                         "libzmq does not say which user sent this: it should be a build with SO_PEERCRED");
    }
    return Peer{"uid " + std::to_string(*uid), *uid == 0 || *uid == ::geteuid()};
}

}  // namespace croupier::daemon

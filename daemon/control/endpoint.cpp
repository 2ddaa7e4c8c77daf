#include "daemon/control/endpoint.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <utility>

#include "daemon/control/start_failure.h"
#include "proto/curve.h"

namespace croupier::daemon {

using shm::Errc;
using shm::fail;

namespace {

constexpr std::string_view kIpc = "ipc://";
// What was sent before the end is a client's: it has so long to read it. A peer that reads nothing must not
// hold up a stop for ever.
constexpr int kLingerMs = 2000;

constexpr const char* kSecretKey = "control.curve.secret_key_file";

// What follows a key on its line.
enum class Rest { is_comment, is_refused };

shm::Result<std::vector<std::string>> read_keys(const std::string& path, const char* key, Rest rest) {
    std::ifstream file(path);
    if (!file) return shm::system_failure(std::string("cannot read ") + key, path, errno);
    std::vector<std::string> keys;
    std::string line;
    for (int number = 1; std::getline(file, line); ++number) {
        line.erase(0, line.find_first_not_of(" \t\r"));
        const std::string word = line.substr(0, line.find_first_of(" \t\r"));
        const bool alone = line.find_first_not_of(" \t\r", word.size()) == std::string::npos;
        // Looked at first: '#' is a digit of Z85, so a key may begin as a comment does.
        const bool sound = proto::is_curve_key(word);
        if (!sound && (word.empty() || word.front() == '#')) continue;
        if (!sound || (!alone && rest == Rest::is_refused)) {
            return fail(Errc::bad_argument, path + ":" + std::to_string(number) + " (" + key +
                                                "): a CURVE key has 40 characters of Z85, one a line");
        }
        keys.push_back(word);
    }
    return keys;
}

// zmq.curve_keypair() gives the public key first: on one line, it would be taken for the secret one.
shm::Result<std::string> read_secret_key(const std::string& path) {
    CROUPIER_TRY_VALUE(keys, read_keys(path, kSecretKey, Rest::is_refused));
    if (keys.size() == 1) return keys.front();
    return fail(Errc::bad_argument, path + " (" + kSecretKey + ") holds " +
                                        (keys.empty() ? "no key" : std::to_string(keys.size()) + " keys") +
                                        "; it should hold the daemon's secret key alone");
}

shm::Result<bool> give_ipc_file(const std::string& path, std::uint32_t mode, const std::string& group) {
    if (!group.empty()) {
        CROUPIER_TRY_VALUE(gid, shm::group_id(group));
        if (::chown(path.c_str(), static_cast<uid_t>(-1), gid) != 0) {
            return shm::system_failure("cannot give to group " + group +
                                           " (shm.group; this user has to be a member of it) the socket",
                                       path, errno);
        }
    }
    if (::chmod(path.c_str(), static_cast<mode_t>(mode)) != 0) {
        return shm::system_failure("cannot chmod the socket", path, errno);
    }
    return true;
}

bool has_listener(const std::string& path) {
    const shm::FileDescriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    // EAGAIN: its queue of callers is full.
    return ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ||
           errno == EAGAIN;
}

// libzmq takes a socket's path from whoever listens there without a word: two daemons would have one path.
shm::Result<LockFile> reserve_path(const std::string& path, const std::string& key) {
    auto taken = LockFile::try_take(path + ".lock", key + " to a path that this user may make");
    if (!taken) return fail(taken.error().code, "cannot bind ipc://" + path + ": " + taken.error().message);
    if (!taken.value() || has_listener(path)) {
        return fail(Errc::already_held, "cannot bind ipc://" + path +
                                            ": another process serves it; give each instance a "
                                            "control.endpoint of its own");
    }
    return *std::move(taken).value();
}

}  // namespace

shm::Result<CurveKeys> load_curve_keys(const config::Curve& curve) {
    CurveKeys keys;
    if (curve.secret_key_file.empty()) return keys;
    CROUPIER_TRY_VALUE(secret, read_secret_key(curve.secret_key_file));
    keys.secret = std::move(secret);
    CROUPIER_TRY_VALUE(authorized, read_keys(curve.authorized_keys_file, "control.curve.authorized_keys_file",
                                             Rest::is_comment));
    keys.authorized = std::move(authorized);
    return keys;
}

shm::Result<LockFile> bind_endpoint(zmq::socket_t& socket, const std::string& endpoint,
                                    const std::string& key, std::uint32_t ipc_mode, const std::string& group,
                                    const CurveKeys& keys) {
    const bool ipc = endpoint.starts_with(kIpc);
    const std::string path = ipc ? endpoint.substr(kIpc.size()) : "";
    LockFile reserved;
    socket.set(zmq::sockopt::linger, kLingerMs);
    if (!ipc) {
        if (keys.secret.empty()) {
            return fail(Errc::bad_argument, endpoint + " is TCP and needs control.curve keys");
        }
        socket.set(zmq::sockopt::zap_domain, "croupier");
        proto::serve_tcp(socket, endpoint, keys.secret);
    } else {
        std::error_code ignored;
        std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
        CROUPIER_TRY_VALUE(got, reserve_path(path, key));
        reserved = std::move(got);
    }
    // The socket is created before it can be reached: a mask of its own closes the moment before the chmod.
    const mode_t before = ::umask(0177);
    try {
        socket.bind(endpoint);
        ::umask(before);
    } catch (const zmq::error_t& error) {
        ::umask(before);
        return start_failure("cannot bind", endpoint, error.num(),
                             key + " to a path that this user may make");
    }
    if (!ipc) return reserved;
    // libzmq leaves it.
    reserved.guard(path);
    CROUPIER_TRY(give_ipc_file(path, ipc_mode, group));
    return reserved;
}

}  // namespace croupier::daemon

#include "tools/doctor/daemon_answer.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>
#include <zmq.hpp>

#include "client/control_channel.h"
#include "client/unreachable.h"
#include "shm/file.h"

namespace croupier::tools::doctor {
namespace {

using nlohmann::json;
using shm::Errc;

constexpr std::string_view kIpc = "ipc://";

// Who listens is known before it is asked, also where it does not answer.
int connect_and_see(const std::string& path, DaemonAnswer& answer) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof(address.sun_path)) return ENAMETOOLONG;
    path.copy(address.sun_path, path.size());
    const shm::FileDescriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
        return errno;
    ucred peer{};
    socklen_t length = sizeof(peer);
    if (::getsockopt(probe.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0) {
        answer.uid = peer.uid;
        // 0: of another PID namespace.
        if (peer.pid > 0) answer.pid = peer.pid;
    }
    return 0;
}

// Of one that takes no more connections the kernel does not say who it is: its lock's file does.
std::optional<pid_t> holder_of_lock(const config::Config& config) {
    const auto file =
        shm::open_file(config.run_dir + "/" + config.instance + ".lock", shm::Access::read_only);
    if (!file || !shm::byte_is_locked(file.value(), 0)) return std::nullopt;
    std::array<char, 32> text{};
    const auto length = ::pread(file.value().get(), text.data(), text.size(), 0);
    pid_t pid = 0;
    std::from_chars(text.data(), text.data() + std::max<ssize_t>(0, length), pid);
    return pid > 0 ? std::optional(pid) : std::nullopt;
}

void read_statistics(const std::string& text, DaemonAnswer& answer) {
    const json told = json::parse(text, nullptr, false);
    if (!told.is_object()) {
        answer.state = DaemonState::other;
        answer.error = "its statistics are not a JSON object";
        return;
    }
    const json build = told.value("build", json::object());
    answer.version = build.value("version", "");
    answer.layouts = build.value("layouts", "");
    for (const json& sampler : told.value("samplers", json::array())) {
        answer.samplers.push_back(
            {sampler.value("alive", false), sampler.value("pid", 0), sampler.value("restarts", 0U)});
    }
    for (const json& session : told.value("sessions", json::array())) {
        ++answer.sessions;
        const json client = session.value("client", json::object());
        if (client.value("alive", false)) answer.clients.push_back(client.value("pid", 0));
    }
    answer.state = DaemonState::answers;
}

DaemonState state_of(Errc code) {
    switch (code) {
        case Errc::not_found:
            return DaemonState::absent;
        case Errc::permission_denied:
            return DaemonState::forbidden;
        case Errc::timed_out:
            return DaemonState::silent;
        default:
            return DaemonState::other;
    }
}

shm::Result<std::string> ask_statistics(const std::string& endpoint, std::chrono::milliseconds patience) {
    zmq::context_t context;
    CROUPIER_TRY_VALUE(channel, client::ControlChannel::connect(context, endpoint, {}, patience));
    flatbuffers::FlatBufferBuilder builder;
    std::string text;
    CROUPIER_TRY(channel.ask<wire::StatisticsReply>(builder, wire::CreateStatistics(builder),
                                                    [&](const wire::StatisticsReply& reply) {
                                                        if (reply.json() != nullptr)
                                                            text = reply.json()->str();
                                                    }));
    return text;
}

}  // namespace

DaemonAnswer ask_daemon(const config::Config& config, std::chrono::milliseconds patience) {
    const std::string& endpoint = config.control.endpoint;
    DaemonAnswer answer;
    if (!endpoint.starts_with(kIpc)) return answer;
    if (connect_and_see(endpoint.substr(kIpc.size()), answer) != 0) {
        const shm::Error why = client::endpoint_silent(endpoint, 0);
        answer.state = state_of(why.code);
        answer.error = why.message;
        if (answer.state == DaemonState::silent) answer.pid = holder_of_lock(config);
        return answer;
    }
    try {
        const auto statistics = ask_statistics(endpoint, patience);
        if (statistics) {
            read_statistics(statistics.value(), answer);
        } else {
            const shm::Error& why = statistics.error();
            answer.state = why.code == Errc::not_found ? DaemonState::blind : state_of(why.code);
            answer.error = why.message;
        }
    } catch (const json::exception& error) {
        answer.state = DaemonState::other;
        answer.error = std::string("its statistics are malformed: ") + error.what();
    }
    return answer;
}

}  // namespace croupier::tools::doctor

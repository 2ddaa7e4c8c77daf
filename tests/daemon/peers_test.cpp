// Who may act for whom over the sockets: by the uid that the kernel vouches for, or by the CURVE key.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "testing/daemon_process.h"
#include "testing/small_engine.h"
#include "tests/daemon/control_peer.h"
#include "tests/daemon/open_house.h"
#include "tests/shm/second_user.h"

using namespace croupier;
using namespace croupier::testing;
using flatbuffers::FlatBufferBuilder;
using shm::as_nobody;
using shm::can_change_user;

namespace {

struct OpenHouse {
    DaemonProcess daemon{kTwoSamplers, kForAllUsers};

    OpenHouse() { let_all_users_in(daemon); }
};

std::uint64_t id_of(const SmallEngine& engine) {
    const std::string name = std::filesystem::path(engine.segment_path()).stem().string();
    return std::stoull(name.substr(name.rfind('-') + 1));
}

// "permission_denied", "not_found", ...: with what the peer was refused; "answered" when it was not.
template <typename Table, typename Make>
std::string asked(ControlPeer& peer, Make&& make) {
    FlatBufferBuilder builder;
    const flatbuffers::Offset<Table> body = make(builder);
    wire::finish(builder, 7, body);
    peer.send(builder);
    const wire::Message* answer = peer.receive();
    if (answer == nullptr) return "silence";
    const auto* refusal = answer->body_as_Refusal();
    if (refusal == nullptr) return "answered";
    return std::string(shm::errc_name(static_cast<shm::Errc>(refusal->code()))) + ": " +
           refusal->message()->str();
}

std::string asks_to_close(ControlPeer& peer, std::uint64_t id) {
    return asked<wire::Close>(peer, [&](auto& builder) { return wire::CreateClose(builder, id); });
}

std::string asks_for_stream(ControlPeer& peer, std::uint64_t id) {
    return asked<wire::Configure>(peer,
                                  [&](auto& builder) { return wire::CreateConfigure(builder, id, true); });
}

std::string asks_to_drain(ControlPeer& peer) {
    return asked<wire::Drain>(peer, [](auto& builder) { return wire::CreateDrain(builder); });
}

nlohmann::json statistics(const DaemonProcess& daemon) {
    ControlPeer peer(daemon.endpoint());
    FlatBufferBuilder builder;
    wire::finish(builder, 9, wire::CreateStatistics(builder));
    peer.send(builder);
    return nlohmann::json::parse(peer.receive()->body_as_StatisticsReply()->json()->str());
}

bool refused(const std::string& outcome) {
    if (outcome.starts_with("permission_denied")) return true;
    std::fprintf(stderr, "not refused: %s\n", outcome.c_str());
    return false;
}

std::string opens(const DaemonProcess& daemon, const std::string& name, bool resume, bool takeover) {
    EngineShape shape;
    shape.resume = resume;
    shape.takeover = takeover;
    return failure_of([&] { SmallEngine(daemon.endpoint(), name, shape); });
}

}  // namespace

TEST_CASE("a user can close, configure, subscribe to, take over and resume only his own sessions") {
    if (!can_change_user() || !shm::child_can_start_threads()) return;
    OpenHouse house;
    DaemonProcess& daemon = house.daemon;
    EngineShape shape;
    shape.decisions_over_zmq = true;
    SmallEngine victim(daemon.endpoint(), "victim", shape);
    { SmallEngine dead(daemon.endpoint(), "dead"); }
    victim.admit(4);
    victim.steps(2);
    const std::uint64_t id = id_of(victim);
    CHECK(as_nobody([&] {
              ControlPeer peer(daemon.endpoint());
              int let_in = 0;
              let_in += !refused(asks_to_close(peer, id));
              let_in += !refused(asks_for_stream(peer, id));
              let_in += !refused(opens(daemon, "victim", false, true));
              let_in += !refused(opens(daemon, "victim", true, false));
              let_in += !refused(opens(daemon, "dead", true, false));
              let_in += !refused(opens(daemon, "dead", false, false));
              return let_in;
          }) == 0);
    victim.steps(3);
    CHECK(as_nobody([&] {
              SmallEngine own(daemon.endpoint(), "own", shape);
              own.admit(4);
              own.steps(2);
              ControlPeer peer(daemon.endpoint());
              return asks_to_close(peer, id_of(own)) == "answered" ? 0 : 1;
          }) == 0);
}

TEST_CASE("only the daemon's own user and root may drain it over the control socket") {
    if (!can_change_user()) return;
    OpenHouse house;
    CHECK(as_nobody([&] {
              ControlPeer peer(house.daemon.endpoint());
              return refused(asks_to_drain(peer)) ? 0 : 1;
          }) == 0);
    SmallEngine engine(house.daemon.endpoint(), "engine");
    engine.admit(4);
    engine.step();
}

TEST_CASE("Statistics give a user the ids and paths of his own sessions only") {
    if (!can_change_user() || !shm::child_can_start_threads()) return;
    OpenHouse house;
    SmallEngine victim(house.daemon.endpoint(), "victim");
    const std::string id = std::to_string(id_of(victim));
    CHECK(statistics(house.daemon).dump().find(id) != std::string::npos);
    CHECK(as_nobody([&] {
              SmallEngine own(house.daemon.endpoint(), "own");
              const auto told = statistics(house.daemon);
              const bool leaks = told.dump().find(id) != std::string::npos;
              const bool own_told = told.dump().find(own.segment_path()) != std::string::npos;
              return leaks || !own_told || told.at("sessions").size() != 2 ? 1 : 0;
          }) == 0);
}

TEST_CASE("the next daemon knows whose session it is") {
    if (!can_change_user() || !shm::child_can_start_threads()) return;
    OpenHouse house;
    SmallEngine victim(house.daemon.endpoint(), "victim");
    victim.admit(4);
    victim.steps(2);
    house.daemon.restart_after_kill();
    let_all_users_in(house.daemon);
    const std::uint64_t id = id_of(victim);
    CHECK(as_nobody([&] {
              ControlPeer peer(house.daemon.endpoint());
              return refused(asks_to_close(peer, id)) && refused(opens(house.daemon, "victim", false, true))
                         ? 0
                         : 1;
          }) == 0);
    victim.steps(2);
    ControlPeer own(house.daemon.endpoint());
    CHECK(asks_to_close(own, id) == "answered");
}

namespace {

// Speaks ZMTP by hand, to say of itself what libzmq would not let it say.
class LyingPeer {
  public:
    explicit LyingPeer(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path.copy(address.sun_path, sizeof(address.sun_path) - 1);
        if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) throw errno;
        std::string greeting("\xFF\0\0\0\0\0\0\0\0\x7F\x03\0NULL", 16);
        greeting.resize(64, '\0');
        write(greeting);
        std::string ready = "\x05READY" + property("Socket-Type", "DEALER") +
                            property("Peer-Address", "localhost:0:0:1") + property("User-Id", "root");
        write(std::string("\x04") + static_cast<char>(ready.size()) + ready);
        read(64);
        read_frame();
    }
    ~LyingPeer() { ::close(fd_); }
    LyingPeer(const LyingPeer&) = delete;
    LyingPeer& operator=(const LyingPeer&) = delete;

    std::string ask(const FlatBufferBuilder& builder) {
        const auto size = static_cast<char>(builder.GetSize());
        write(std::string(1, '\0') + size +
              std::string(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()));
        return read_frame();
    }

  private:
    static std::string property(const std::string& name, const std::string& value) {
        return static_cast<char>(name.size()) + name + std::string(3, '\0') +
               static_cast<char>(value.size()) + value;
    }
    void write(const std::string& bytes) const {
        if (::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size()))
            throw errno;
    }
    std::string read(std::size_t bytes) const {
        std::string text(bytes, '\0');
        if (::recv(fd_, text.data(), bytes, MSG_WAITALL) != static_cast<ssize_t>(bytes)) throw errno;
        return text;
    }
    std::string read_frame() const {
        const std::string head = read(2);
        if ((head[0] & 2) == 0) return read(static_cast<unsigned char>(head[1]));
        const std::string more = read(7);
        std::size_t size = static_cast<unsigned char>(head[1]);
        for (const char c : more) size = size * 256 + static_cast<unsigned char>(c);
        return read(size);
    }

    int fd_;
};

}  // namespace

TEST_CASE("a peer that claims to be another user is treated as the user that the kernel reports") {
    if (!can_change_user()) return;
    OpenHouse house;
    CHECK(as_nobody([&] {
              LyingPeer peer(house.daemon.directory() + "/control.sock");
              FlatBufferBuilder builder;
              wire::finish(builder, 7, wire::CreateDrain(builder));
              const std::string answer = peer.ask(builder);
              return answer.find("came from uid 65534") != std::string::npos ? 0 : 1;
          }) == 0);
}

#include <algorithm>
#include <array>

#include "fan_out/zmq_fan_out.h"
#include "fan_out/zmq_wire.h"
#include "proto/zmq_calls.h"

namespace croupier::fan_out {

shm::Result<std::unique_ptr<FanOut>> open_zmq_fan_out(const FanOutOptions& options) {
    return options.member == 0 ? open_zmq_root(options) : open_zmq_member(options);
}

namespace {

using proto::FanOutHeader;
using proto::FanOutKind;
using shm::Errc;
using std::chrono::milliseconds;

constexpr int kReconnectMs = 20;
constexpr int kReconnectMaxMs = 200;
constexpr const char* kMonitor = "inproc://croupier.fan-out.connection";

// The state of the connection, as libzmq's own thread reports it.
class Connection {
  public:
    Connection(zmq::context_t& context, zmq::socket_t& socket)
        : events_(proto::monitor_of(context, socket, kMonitor,
                                    ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED)) {}

    zmq::socket_t& events() { return events_; }
    void look() {
        while (const auto event = proto::next_event(events_)) {
            up_ = event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
            made_ += up_ ? 1 : 0;
        }
    }
    bool up() const { return up_; }
    std::uint32_t made() const { return made_; }

  private:
    zmq::socket_t events_;
    bool up_ = false;
    std::uint32_t made_ = 0;  // number of connections so far
};

class ZmqMember final : public FanOut {
  public:
    explicit ZmqMember(const FanOutOptions& options) : options_(options) {}
    ~ZmqMember() override {
        // The monitor ends before its reader (proto/zmq_calls.h).
        if (socket_) zmq_socket_monitor(socket_.handle(), nullptr, 0);
    }

    shm::Result<bool> begin();
    shm::Result<std::optional<std::span<const std::uint8_t>>> receive(milliseconds timeout,
                                                                      int wake) override;
    shm::Result<bool> answer(std::span<const std::uint8_t> bytes) override;
    bool closed_by_root() const override { return closed_by_root_; }

  private:
    std::string named() const;
    shm::Result<bool> join();
    std::string why_not_joined() const;
    void greet_root();
    bool lost() const { return !connection_->up() || connection_->made() != joined_as_; }
    // Reads a frame into bytes_ and frame_. False: none has come.
    shm::Result<bool> next_frame();
    shm::Result<bool> accept_record();
    bool send_frame(FanOutKind kind, std::uint64_t number, std::span<const std::uint8_t> payload);
    shm::Error fail_for_good(Errc code, const std::string& why);

    FanOutOptions options_;
    zmq::context_t context_;  // before every socket in it, so that it is destroyed after them
    zmq::socket_t socket_;
    std::optional<Connection> connection_;
    std::uint32_t joined_as_ = 0;  // the connection over which this member joined; another one has not joined
    zmq::message_t bytes_;
    proto::FanOutFrame frame_;
    Record record_;
    std::uint64_t session_ = 0;
    std::uint64_t received_ = 0;
    bool closed_by_root_ = false;
    std::optional<shm::Error> failed_;
};

std::string ZmqMember::named() const {
    return "member " + std::to_string(options_.member) + " of the fan-out of " +
           std::to_string(options_.members) + " whose root is at " + options_.endpoint;
}

shm::Error ZmqMember::fail_for_good(Errc code, const std::string& why) {
    failed_ = {code, named() + ": " + why};
    return *failed_;
}

shm::Result<bool> ZmqMember::begin() {
    CROUPIER_TRY_VALUE(socket, make_fan_out_socket(context_, zmq::socket_type::dealer, options_));
    socket_ = std::move(socket);
    socket_.set(zmq::sockopt::reconnect_ivl, kReconnectMs);
    socket_.set(zmq::sockopt::reconnect_ivl_max, kReconnectMaxMs);
    // A message for one root must not wait in a queue for the next root.
    socket_.set(zmq::sockopt::immediate, true);
    // The root's window bounds the incoming records.
    socket_.set(zmq::sockopt::rcvhwm, 0);
    connection_.emplace(context_, socket_);
    try {
        proto::uninterrupted([&] { socket_.connect(options_.endpoint); });
    } catch (const zmq::error_t& error) {
        return shm::fail(Errc::bad_argument, "cannot connect to endpoint " + options_.endpoint + ": " +
                                                 error.what() +
                                                 "; it should be ipc://<path> or tcp://<host>:<port>");
    }
    return join();
}

bool ZmqMember::send_frame(FanOutKind kind, std::uint64_t number, std::span<const std::uint8_t> payload) {
    FanOutHeader header;
    header.session = session_;
    header.number = number;
    header.kind = kind;
    header.member = options_.member;
    header.members = options_.members;
    const auto bytes = proto::fan_out_frame(header, payload);
    return proto::send_frames(socket_, std::array{zmq::const_buffer(zmq::buffer(bytes))},
                              zmq::send_flags::dontwait);
}

shm::Result<bool> ZmqMember::next_frame() {
    auto frames = proto::receive_frames(socket_, zmq::recv_flags::dontwait);
    if (frames.empty()) return false;
    bytes_ = std::move(frames.front());
    if (auto fault = read_fan_out_frame({bytes_.data<std::uint8_t>(), bytes_.size()}, frame_)) {
        return fail_for_good(Errc::wrong_version, *fault);
    }
    if (frame_.header.kind == FanOutKind::refusal) {
        return fail_for_good(
            Errc::refused, "the root refuses: " + std::string(frame_.payload.begin(), frame_.payload.end()));
    }
    return true;
}

// Each new connection needs its own hello, because the root may be another process.
void ZmqMember::greet_root() {
    connection_->look();
    if (!connection_->up() || connection_->made() == joined_as_) return;
    if (send_frame(FanOutKind::hello, 0, {})) joined_as_ = connection_->made();
}

std::string ZmqMember::why_not_joined() const {
    if (joined_as_ == 0) return "nobody listened there, or refused this member's key";
    if (lost())
        return "the root ended, or its connection was cut, before the group began, and none took its place";
    return "not all of the others joined";
}

shm::Result<bool> ZmqMember::join() {
    auto deadline = Clock::now() + options_.join_timeout;
    while (true) {
        greet_root();
        auto next = next_frame();
        if (!next) return next;
        if (next.value() && frame_.header.kind == FanOutKind::welcome) {
            connection_->look();
            if (lost()) continue;
            session_ = frame_.header.session;
            return true;
        }
        const auto left = time_left(deadline);
        if (left == milliseconds::zero()) {
            if (joined_as_ != 0 && !lost() && options_.waits_on && options_.waits_on()) {
                deadline = Clock::now() + options_.join_timeout;
                continue;
            }
            return shm::fail(Errc::timed_out, named() + ": " + why_not_joined() + " within " +
                                                  std::to_string(options_.join_timeout.count()) + " ms");
        }
        if (!next.value()) (void)wait_for_either(socket_, connection_->events(), left);
    }
}

shm::Result<bool> ZmqMember::accept_record() {
    const FanOutHeader& header = frame_.header;
    if (header.session != session_) {
        return fail_for_good(Errc::refused, "a record of session " + std::to_string(header.session) +
                                                " came, this member is in session " +
                                                std::to_string(session_));
    }
    if (header.kind != FanOutKind::record && header.kind != FanOutKind::farewell) return false;
    if (header.number != received_ + 1) {
        return fail_for_good(Errc::corrupt_header, "record " + std::to_string(header.number) +
                                                       " came after record " + std::to_string(received_));
    }
    received_ = header.number;
    (void)send_frame(FanOutKind::received, received_, {});
    if (header.kind == FanOutKind::record) return true;
    closed_by_root_ = true;
    return fail_for_good(Errc::peer_gone,
                         "the root closed the group after record " + std::to_string(received_ - 1));
}

shm::Result<std::optional<std::span<const std::uint8_t>>> ZmqMember::receive(milliseconds timeout, int wake) {
    std::optional<std::span<const std::uint8_t>> record;
    if (failed_) return *failed_;
    const auto deadline = Clock::now() + timeout;
    while (true) {
        // Read before the socket, so that all messages of a root that died are received.
        connection_->look();
        const bool gone = lost();
        CROUPIER_TRY_VALUE(next, next_frame());
        if (next) {
            CROUPIER_TRY_VALUE(accepted, accept_record());
            if (!accepted) continue;
            // Copied, because a frame may be unaligned in ZMQ's receive buffer.
            record_.assign(frame_.payload.begin(), frame_.payload.end());
            record = record_;
            return record;
        }
        if (gone) {
            return fail_for_good(Errc::peer_gone, "the root died, or its connection was cut, after record " +
                                                      std::to_string(received_));
        }
        const auto left = time_left(deadline);
        if (left == milliseconds::zero()) return record;
        if (wait_for_either(socket_, connection_->events(), left, wake).wake) return record;
    }
}

shm::Result<bool> ZmqMember::answer(std::span<const std::uint8_t> bytes) {
    if (failed_) return *failed_;
    if (bytes.size() > proto::kMaxAnswerBytes) {
        return shm::fail(Errc::bad_argument, "the answer has " + std::to_string(bytes.size()) +
                                                 " bytes, allowed is 0 to " +
                                                 std::to_string(proto::kMaxAnswerBytes));
    }
    connection_->look();
    if (lost()) return fail_for_good(Errc::peer_gone, "the root died, or its connection was cut");
    return send_frame(FanOutKind::answer, received_, bytes);
}

}  // namespace

shm::Result<std::unique_ptr<FanOut>> open_zmq_member(const FanOutOptions& options) {
    auto member = std::make_unique<ZmqMember>(options);
    CROUPIER_TRY(member->begin());
    return std::unique_ptr<FanOut>(std::move(member));
}

}  // namespace croupier::fan_out

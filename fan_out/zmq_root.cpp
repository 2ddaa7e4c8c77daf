#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <exception>

#include "fan_out/zmq_fan_out.h"
#include "fan_out/zmq_wire.h"
#include "proto/curve.h"
#include "proto/zmq_calls.h"
#include "shm/random_number.h"

namespace croupier::fan_out {
namespace {

using proto::FanOutHeader;
using proto::FanOutKind;
using shm::Errc;
using std::chrono::milliseconds;

// A root that only waits for answers checks its members this often.
constexpr milliseconds kBeat{100};
// How long it waits for members that do not read when it closes the group.
constexpr milliseconds kFarewell{1000};
constexpr milliseconds kBetweenLooks{10};
// A bound beside the window, so that records with many grammar masks do not add up to gigabytes.
constexpr std::uint64_t kMostBytesUnderWay = 2 * proto::kMaxRecordBytes;
// The most unread answers. Beyond them the root does not read the socket, and send() becomes busy.
constexpr std::size_t kMostAnswers = 4096;

std::uint64_t fresh_session() {
    std::uint64_t id = 0;
    while (id == 0) id = shm::random_number().value_or(0);
    return id;
}

struct Member {
    std::string identity;  // empty: not joined
    std::uint64_t received = 0;
};

class ZmqRoot final : public FanOut {
  public:
    explicit ZmqRoot(const FanOutOptions& options)
        : options_(options), session_(fresh_session()), door_(context_), members_(options.members) {}
    ~ZmqRoot() override;

    shm::Result<bool> begin();
    shm::Result<bool> send(std::span<const std::uint8_t> record) override;
    shm::Result<std::optional<Answer>> receive_answer(milliseconds timeout) override;
    int descriptor() const override { return static_cast<int>(socket_.get(zmq::sockopt::fd)); }
    void skip_farewell() override { owes_farewell_ = false; }

  private:
    shm::Result<bool> await_members();
    std::string missing() const;
    bool complete() const;
    void take_in(milliseconds timeout);
    void answer_door();
    void take_frame(const std::string& identity, std::span<const std::uint8_t> bytes);
    void seat(const std::string& identity, const FanOutHeader& hello);
    bool send_frame(const std::string& identity, FanOutKind kind, std::uint64_t number,
                    std::span<const std::uint8_t> payload);
    void refuse(const std::string& identity, const std::string& why);
    void say_farewell();
    shm::Result<bool> send_all(FanOutKind kind, std::uint64_t number, std::span<const std::uint8_t> payload);
    shm::Result<bool> beat_when_due();
    std::uint64_t received_by_all() const;
    bool busy();
    shm::Error fail_for_good(std::string why);

    FanOutOptions options_;
    std::uint64_t session_;
    zmq::context_t context_;  // before every socket in it, so that it is destroyed after them
    proto::ZapDoor door_;
    std::uint32_t refused_keys_ = 0;
    zmq::socket_t socket_;
    std::vector<Member> members_;  // [0] is the root itself
    std::string last_refused_;
    std::uint64_t sent_ = 0;
    std::deque<std::uint64_t> sizes_under_way_;  // of the records in flight, the newest last
    std::uint64_t bytes_under_way_ = 0;
    std::deque<Answer> answers_;
    Clock::time_point last_sent_;
    bool owes_farewell_ = false;  // once its members were sent their welcome
    bool closing_ = false;        // no member can join any more
    std::optional<shm::Error> failed_;
};

ZmqRoot::~ZmqRoot() {
    if (!owes_farewell_ || failed_) return;
    try {
        say_farewell();
    } catch (const std::exception&) {
        return;
    }
}

// A member may lose what it has not read when the connection ends: the root waits until its farewell is read.
// A group that was seen to have lost a member is not closed in order, and the others are not told that it is.
void ZmqRoot::say_farewell() {
    closing_ = true;
    if (!send_all(FanOutKind::farewell, ++sent_, {})) return;
    const auto deadline = Clock::now() + kFarewell;
    while (received_by_all() < sent_ && Clock::now() < deadline) {
        answers_.clear();
        take_in(kBetweenLooks);
        if (!beat_when_due()) return;
    }
}

shm::Error ZmqRoot::fail_for_good(std::string why) {
    failed_ = {Errc::peer_gone, std::move(why)};
    return *failed_;
}

shm::Result<bool> ZmqRoot::begin() {
    CROUPIER_TRY_VALUE(socket, make_fan_out_socket(context_, zmq::socket_type::router, options_));
    socket_ = std::move(socket);
    // Without it, libzmq silently drops a message to a member that is gone.
    socket_.set(zmq::sockopt::router_mandatory, true);
    // The window bounds the queue. A second bound could refuse a record that some members already have.
    socket_.set(zmq::sockopt::sndhwm, 0);
    try {
        proto::uninterrupted([&] { socket_.bind(options_.endpoint); });
    } catch (const zmq::error_t& error) {
        return shm::fail(
            error.num() == EACCES ? Errc::permission_denied : Errc::bad_argument,
            "the root of the fan-out cannot listen at " + options_.endpoint + ": " + error.what());
    }
    return await_members();
}

bool ZmqRoot::complete() const {
    return std::all_of(members_.begin() + 1, members_.end(),
                       [](const Member& member) { return !member.identity.empty(); });
}

std::string ZmqRoot::missing() const {
    std::string numbers;
    for (std::size_t i = 1; i < members_.size(); ++i) {
        if (members_[i].identity.empty()) numbers += (numbers.empty() ? "" : ", ") + std::to_string(i);
    }
    std::string text = "of the " + std::to_string(members_.size()) + " members of the fan-out at " +
                       options_.endpoint + " did not join within " +
                       std::to_string(options_.join_timeout.count()) + " ms: " + numbers;
    if (!last_refused_.empty()) text += "; a peer was refused: " + last_refused_;
    if (refused_keys_ > 0) {
        text +=
            "; " + std::to_string(refused_keys_) + " connections came with another key than peer_public_key";
    }
    return text;
}

shm::Result<bool> ZmqRoot::await_members() {
    const auto deadline = Clock::now() + options_.join_timeout;
    while (true) {
        while (!complete()) {
            const auto left = time_left(deadline);
            if (left == milliseconds::zero()) return shm::fail(Errc::timed_out, missing());
            take_in(left);
        }
        // A member that joined may be gone by now. Its place is free again, because the group has not begun.
        bool all = true;
        for (std::size_t i = 1; i < members_.size(); ++i) {
            if (send_frame(members_[i].identity, FanOutKind::beat, 0, {})) continue;
            members_[i].identity.clear();
            all = false;
        }
        if (!all) continue;
        CROUPIER_TRY(send_all(FanOutKind::welcome, 0, {}));
        owes_farewell_ = true;
        return true;
    }
}

// Members share one key. Connections over ipc, without CURVE, send no request.
void ZmqRoot::answer_door() {
    const auto request = door_.receive(zmq::recv_flags::dontwait);
    if (!request) return;
    const bool known = !request->key.empty() && request->key == options_.keys.peer_public;
    if (!known) ++refused_keys_;
    door_.answer(*request, known);
}

void ZmqRoot::take_in(milliseconds timeout) {
    const Readable ready = wait_for_either(socket_, door_.socket(), timeout);
    if (ready.second) answer_door();
    while (ready.first && answers_.size() < kMostAnswers) {
        const auto frames = proto::receive_frames(socket_, zmq::recv_flags::dontwait);
        if (frames.empty()) return;
        if (frames.size() != 2) {
            last_refused_ =
                "its message had " + std::to_string(frames.size() - 1) + " frames, a member's has 1";
            continue;
        }
        take_frame(frames[0].to_string(), {frames[1].data<std::uint8_t>(), frames[1].size()});
    }
}

void ZmqRoot::take_frame(const std::string& identity, std::span<const std::uint8_t> bytes) {
    proto::FanOutFrame frame;
    if (auto fault = read_fan_out_frame(bytes, frame)) return refuse(identity, *fault);
    const FanOutHeader& header = frame.header;
    // The next group will answer it.
    if (header.kind == FanOutKind::hello && closing_) return;
    if (header.kind == FanOutKind::hello) return seat(identity, header);
    const bool seated = header.member > 0 && header.member < members_.size() &&
                        members_[header.member].identity == identity && header.session == session_;
    if (!seated) return refuse(identity, "it has no place in this group: it should join first");
    if (header.kind == FanOutKind::received && header.number <= sent_) {
        members_[header.member].received = std::max(members_[header.member].received, header.number);
    } else if (header.kind == FanOutKind::answer) {
        answers_.push_back({header.member, {frame.payload.begin(), frame.payload.end()}});
    } else {
        refuse(identity, "a member sends answers, and receipts of what was sent, and nothing else");
    }
}

void ZmqRoot::seat(const std::string& identity, const FanOutHeader& hello) {
    const std::string who = "member " + std::to_string(hello.member) + " of " + std::to_string(hello.members);
    if (hello.members != members_.size() || hello.member == 0 || hello.member >= members_.size()) {
        return refuse(identity, who + " has no place here: this group has the members 1 to " +
                                    std::to_string(members_.size() - 1) + " and the root");
    }
    Member& member = members_[hello.member];
    const bool taken = !member.identity.empty() &&
                       (sent_ > 0 || complete() || send_frame(member.identity, FanOutKind::beat, 0, {}));
    if (taken) return refuse(identity, who + " is in this group already: another process, or an earlier one");
    member.identity = identity;
}

bool ZmqRoot::send_frame(const std::string& identity, FanOutKind kind, std::uint64_t number,
                         std::span<const std::uint8_t> payload) {
    FanOutHeader header;
    header.session = session_;
    header.number = number;
    header.kind = kind;
    header.members = static_cast<std::uint32_t>(members_.size());
    const auto bytes = proto::fan_out_frame(header, payload);
    try {
        const std::array<zmq::const_buffer, 2> frames = {zmq::buffer(identity), zmq::buffer(bytes)};
        return proto::send_frames(socket_, frames, zmq::send_flags::dontwait);
    } catch (const zmq::error_t& error) {
        if (error.num() == EHOSTUNREACH) return false;
        throw;
    }
}

void ZmqRoot::refuse(const std::string& identity, const std::string& why) {
    last_refused_ = why;
    (void)send_frame(identity, FanOutKind::refusal, 0,
                     {reinterpret_cast<const std::uint8_t*>(why.data()), why.size()});
}

shm::Result<bool> ZmqRoot::send_all(FanOutKind kind, std::uint64_t number,
                                    std::span<const std::uint8_t> payload) {
    last_sent_ = Clock::now();
    for (std::size_t i = 1; i < members_.size(); ++i) {
        if (send_frame(members_[i].identity, kind, number, payload)) continue;
        return fail_for_good("member " + std::to_string(i) + " of the fan-out of " +
                             std::to_string(members_.size()) + " whose root listens at " + options_.endpoint +
                             " is gone: it had received " + std::to_string(members_[i].received) + " of " +
                             std::to_string(sent_) + " records; begin the group anew");
    }
    return true;
}

std::uint64_t ZmqRoot::received_by_all() const {
    std::uint64_t received = sent_;
    for (std::size_t i = 1; i < members_.size(); ++i) received = std::min(received, members_[i].received);
    return received;
}

bool ZmqRoot::busy() {
    const std::uint64_t received = received_by_all();
    while (sizes_under_way_.size() > sent_ - received) {
        bytes_under_way_ -= sizes_under_way_.front();
        sizes_under_way_.pop_front();
    }
    return sizes_under_way_.size() >= options_.window || bytes_under_way_ >= kMostBytesUnderWay;
}

shm::Result<bool> ZmqRoot::send(std::span<const std::uint8_t> record) {
    if (failed_) return *failed_;
    if (record.size() > proto::kMaxRecordBytes) {
        return shm::fail(Errc::bad_argument, "the record has " + std::to_string(record.size()) +
                                                 " bytes, allowed is 0 to " +
                                                 std::to_string(proto::kMaxRecordBytes));
    }
    take_in(milliseconds::zero());
    if (busy()) {
        // A member that is gone never receives, so this fails instead of being busy for ever.
        CROUPIER_TRY(beat_when_due());
        return false;
    }
    CROUPIER_TRY(send_all(FanOutKind::record, sent_ + 1, record));
    ++sent_;
    sizes_under_way_.push_back(record.size());
    bytes_under_way_ += record.size();
    return true;
}

shm::Result<bool> ZmqRoot::beat_when_due() {
    if (Clock::now() - last_sent_ < kBeat) return true;
    return send_all(FanOutKind::beat, sent_, {});
}

shm::Result<std::optional<Answer>> ZmqRoot::receive_answer(milliseconds timeout) {
    const auto deadline = Clock::now() + timeout;
    std::optional<Answer> answer;
    while (true) {
        if (failed_ && answers_.empty()) return *failed_;
        const auto left = time_left(deadline);
        take_in(answers_.empty() ? std::min(left, kBeat) : milliseconds::zero());
        if (!answers_.empty()) {
            answer = std::move(answers_.front());
            answers_.pop_front();
            return answer;
        }
        CROUPIER_TRY(beat_when_due());
        if (left != milliseconds::zero()) continue;
        // The beat may have reset the descriptor behind an answer that has come since.
        take_in(milliseconds::zero());
        if (answers_.empty()) return answer;
    }
}

}  // namespace

shm::Result<std::unique_ptr<FanOut>> open_zmq_root(const FanOutOptions& options) {
    auto root = std::make_unique<ZmqRoot>(options);
    CROUPIER_TRY(root->begin());
    return std::unique_ptr<FanOut>(std::move(root));
}

}  // namespace croupier::fan_out

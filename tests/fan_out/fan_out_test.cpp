// A fan-out between real processes: what each member has received, and what happens when one dies.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <deque>
#include <future>
#include <memory>
#include <random>

#include "proto/fan_out_frame.h"
#include "testing/frequent_signals.h"
#include "testing/session_files.h"
#include "tests/daemon/loopback.h"
#include "tests/fan_out/fan_out_peer.h"
#include "tests/fan_out/transports.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;
using fan_out::Answer;
using fan_out::FanOut;
using fan_out::FanOutOptions;
using fan_out::Record;
using fan_out::Transport;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kPatience{30000};
const Record kEnd = {'e', 'n', 'd'};

FanOutOptions tcp_options(Transport transport, std::uint32_t members) {
    FanOutOptions options;
    options.transport = transport;
    options.endpoint = "tcp://127.0.0.1:" + std::to_string(free_port());
    options.keys = keys_of_root();
    options.members = members;
    options.join_timeout = kPatience;
    return options;
}

FanOutOptions of_member(FanOutOptions options, std::uint32_t member) {
    options.member = member;
    options.device = static_cast<std::int32_t>(member);
    options.keys = keys_of_member();
    return options;
}

// A root in this process, and its members in theirs.
struct Group {
    Group(const FanOutOptions& options, PeerTask task) {
        for (std::uint32_t member = 1; member < options.members; ++member) {
            peers.push_back(std::make_unique<Peer>(of_member(options, member), task));
        }
        root = need(fan_out::open_fan_out(options));
    }

    void send(std::span<const std::uint8_t> record) {
        const auto deadline = std::chrono::steady_clock::now() + kPatience;
        while (!need(root->send(record))) {
            if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("busy for too long");
            if (auto answer = need(root->receive_answer(milliseconds(1)))) early.push_back(*answer);
        }
    }
    Answer answer() {
        if (!early.empty()) {
            Answer first = early.front();
            early.pop_front();
            return first;
        }
        auto next = need(root->receive_answer(kPatience));
        if (!next) throw std::runtime_error("no answer came");
        return *std::move(next);
    }
    void end() {
        send(kEnd);
        for (auto& peer : peers) {
            const int code = peer->wait();
            INFO(peer->said());
            CHECK(code == 0);
        }
    }

    std::vector<std::unique_ptr<Peer>> peers;
    std::unique_ptr<FanOut> root;
    std::deque<Answer> early;
};

Record random_record(std::size_t bytes) {
    std::mt19937 random(static_cast<std::uint32_t>(bytes));
    Record record(bytes);
    for (auto& byte : record) byte = static_cast<std::uint8_t>(random());
    return record;
}

Record numbered(std::uint64_t number, std::size_t bytes) {
    Record record(std::max(bytes, sizeof(number)));
    std::memcpy(record.data(), &number, sizeof(number));
    return record;
}

shm::Error error_of_next(FanOut& root) {
    while (true) {
        auto next = root.receive_answer(kPatience);
        if (!next) return next.error();
        if (!next.value()) throw std::runtime_error("nothing failed");
    }
}

}  // namespace

TEST_CASE("every member receives every record, whatever its length, and its answers name it", "[nccl]") {
    const auto transport = GENERATE(Transport::zmq, Transport::nccl);
    if (!can_run(transport)) return;
    const std::uint32_t members = most_members(transport);
    Group group(tcp_options(transport, members), PeerTask::echo);
    for (const std::size_t bytes : {0U, 1U, 7U, 4096U, 65535U, 65536U, 65537U, 1000003U, 20000000U}) {
        const Record record = random_record(bytes);
        group.send(record);
        std::vector<bool> heard(members, false);
        for (std::uint32_t i = 1; i < members; ++i) {
            const Answer answer = group.answer();
            REQUIRE(answer.member > 0);
            REQUIRE(answer.member < members);
            CHECK_FALSE(heard[answer.member]);
            heard[answer.member] = true;
            CHECK(answer.bytes == record);
        }
    }
    group.end();
}

TEST_CASE("ten thousand records arrive in order, none lost, none twice", "[nccl]") {
    const auto transport = GENERATE(Transport::zmq, Transport::nccl);
    if (!can_run(transport)) return;
    const std::uint32_t members = most_members(transport);
    Group group(tcp_options(transport, members), PeerTask::count);
    constexpr std::uint64_t kRecords = 10000;
    for (std::uint64_t number = 1; number <= kRecords; ++number) {
        group.send(numbered(number, number % 700));
    }
    group.end();
    for (std::uint32_t i = 1; i < members; ++i) {
        std::uint64_t seen = 0;
        const Answer answer = group.answer();
        REQUIRE(answer.bytes.size() == sizeof(seen));
        std::memcpy(&seen, answer.bytes.data(), sizeof(seen));
        CHECK(seen == kRecords);
    }
}

TEST_CASE("a member that does not receive makes the root busy, and nothing is lost by it", "[nccl]") {
    const auto transport = GENERATE(Transport::zmq, Transport::nccl);
    if (!can_run(transport)) return;
    FanOutOptions options = tcp_options(transport, 2);
    options.window = 5;
    Group group(options, PeerTask::late_echo);
    std::uint64_t sent = 0;
    while (need(group.root->send(numbered(sent + 1, 100)))) ++sent;
    // NCCL has buffers of its own for small records: it may be busy sooner, with the first.
    CHECK(sent <= 5);
    CHECK(sent >= (transport == Transport::zmq ? 5 : 1));
    CHECK_FALSE(need(group.root->send(numbered(99, 100))));
    group.peers.front()->end_input();
    for (std::uint64_t number = 1; number <= sent; ++number) {
        CHECK(group.answer().bytes == numbered(number, 100));
    }
    group.send(numbered(sent + 1, 100));
    CHECK(group.answer().bytes == numbered(sent + 1, 100));
    group.end();
}

TEST_CASE("a member that is killed is named to the root, also while the root only waits", "[nccl]") {
    const auto transport = GENERATE(Transport::zmq, Transport::nccl);
    if (!can_run(transport)) return;
    Group group(tcp_options(transport, 2), PeerTask::echo);
    group.send(Record{7});
    CHECK(group.answer().bytes == Record{7});
    group.peers.front()->kill();
    const shm::Error error = error_of_next(*group.root);
    CHECK(error.code == shm::Errc::peer_gone);
    CHECK_THAT(error.message, Contains("member 1 of the fan-out of 2") && Contains("is gone"));
    CHECK(group.root->send(Record{8}).error().message == error.message);
}

TEST_CASE("a peer that falls silent without a word is as good as dead after some seconds") {
    SECTION("a member") {
        Group group(tcp_options(Transport::zmq, 2), PeerTask::echo);
        group.peers.front()->pause();
        CHECK_THAT(error_of_next(*group.root).message, Contains("member 1") && Contains("is gone"));
    }
    SECTION("the root") {
        const FanOutOptions options = tcp_options(Transport::zmq, 2);
        Peer root(options, PeerTask::root);
        const auto member = need(fan_out::open_fan_out(of_member(options, 1)));
        REQUIRE(need(member->receive(kPatience)));
        root.pause();
        CHECK_THAT(member->receive(kPatience).error().message,
                   Contains("the root died, or its connection was cut"));
    }
}

TEST_CASE("a root that ends is named to its members, after the last record that it sent", "[nccl]") {
    const auto transport = GENERATE(Transport::zmq, Transport::nccl);
    if (!can_run(transport)) return;
    const FanOutOptions options = tcp_options(transport, 2);
    Peer root(options, PeerTask::root);
    const auto member = need(fan_out::open_fan_out(of_member(options, 1)));
    const auto receive_first = [&] {
        const auto first = need(member->receive(kPatience));
        REQUIRE(first);
        CHECK(Record(first->begin(), first->end()) == Record{1, 2, 3});
    };
    std::string says = "after record 1";
    SECTION("by death, while the member waits for another record") {
        receive_first();
        CHECK_FALSE(need(member->receive(milliseconds(10))));
        root.kill();
        says = "the root died, or its connection was cut, after record 1";
    }
    SECTION("by closing the group") {
        receive_first();
        root.end_input();
        says = "the root closed the group after record 1";
    }
    if (transport == Transport::zmq) {
        SECTION("before the member has looked") {
            CHECK(root.wait() == 0);
            receive_first();
        }
    }
    const auto after = member->receive(kPatience);
    REQUIRE_FALSE(after);
    CHECK(after.error().code == shm::Errc::peer_gone);
    CHECK_THAT(after.error().message, Contains(options.endpoint) && Contains(says));
    if (says.find("died") != std::string::npos) CHECK_FALSE(member->closed_by_root());
    if (says.find("closed") != std::string::npos) CHECK(member->closed_by_root());
    CHECK(member->answer(Record{1}).error().message == after.error().message);
}

TEST_CASE("a root whose NCCL fails is gone to its members: it has not closed the group", "[nccl]") {
    FanOutOptions options = tcp_options(Transport::nccl, 2);
    options.device = 9999;
    options.join_timeout = milliseconds(0);
    if (const auto alone = fan_out::open_fan_out(options); alone.error().code == shm::Errc::not_found) {
        WARN("skipped: " << alone.error().message);
        return;
    }
    options.join_timeout = kPatience;
    FanOutOptions listener = of_member(options, 1);
    listener.transport = Transport::zmq;
    listener.join_timeout = milliseconds(20000);
    auto opening = std::async(std::launch::async, [&] { return fan_out::open_fan_out(options); });
    const auto member = fan_out::open_fan_out(listener);
    CHECK_THAT(opening.get().error().message, Contains("cannot use GPU 9999"));
    if (!member) {
        // The root had gone before its welcome was read: to the member, this group never began.
        CHECK_THAT(member.error().message, Contains("the root ended, or its connection was cut, before"));
        return;
    }
    auto next = member.value()->receive(kPatience);
    while (next && next.value()) next = member.value()->receive(kPatience);
    REQUIRE_FALSE(next);
    CHECK_THAT(next.error().message, Contains("the root died, or its connection was cut"));
    CHECK_FALSE(member.value()->closed_by_root());
}

TEST_CASE("members who do not join are named when the time is over") {
    FanOutOptions options = tcp_options(Transport::zmq, 4);
    options.join_timeout = milliseconds(6000);
    const Peer second(of_member(options, 2), PeerTask::echo);
    const auto root = fan_out::open_fan_out(options);
    REQUIRE_FALSE(root);
    CHECK(root.error().code == shm::Errc::timed_out);
    CHECK_THAT(root.error().message, Contains("did not join within 6000 ms: 1, 3") &&
                                         Contains(options.endpoint) && !Contains("refused"));
}

TEST_CASE("a member waits for a root that comes later, and says where it waited when none comes") {
    FanOutOptions options = tcp_options(Transport::zmq, 2);
    SECTION("later") {
        Peer early(of_member(options, 1), PeerTask::echo);
        options.join_timeout = milliseconds(20000);
        const auto root = need(fan_out::open_fan_out(options));
        CHECK(need(root->send(kEnd)));
        CHECK(early.wait() == 0);
    }
    SECTION("never") {
        options.join_timeout = milliseconds(200);
        const auto alone = fan_out::open_fan_out(of_member(options, 1));
        REQUIRE_FALSE(alone);
        CHECK(alone.error().code == shm::Errc::timed_out);
        CHECK_THAT(alone.error().message,
                   Contains(options.endpoint) && Contains("nobody listened there") && Contains("200 ms"));
    }
}

TEST_CASE("over TCP a member needs the key that the root expects, and both sides say what is wrong") {
    FanOutOptions options = tcp_options(Transport::zmq, 2);
    options.join_timeout = milliseconds(6000);
    FanOutOptions stranger = of_member(options, 1);
    stranger.keys.own_public = keys_of_root().own_public;
    stranger.keys.own_secret = keys_of_root().own_secret;
    Peer refused(stranger, PeerTask::echo);
    const auto root = fan_out::open_fan_out(options);
    REQUIRE_FALSE(root);
    CHECK_THAT(root.error().message,
               Contains("did not join") && Contains("another key than peer_public_key"));
    CHECK(refused.wait() != 0);
    CHECK_THAT(refused.said(), Contains("refused this member's key"));
    options.keys.own_secret = "short";
    CHECK_THAT(fan_out::open_fan_out(options).error().message,
               Contains("own_secret_key has 5 characters, a Z85 key has 40"));
}

TEST_CASE("on one host a group needs no keys, and a place is taken once") {
    const ShmDirectory directory;
    FanOutOptions options;
    options.endpoint = "ipc://" + directory.path() + "/fan-out.sock";
    options.join_timeout = kPatience;
    Group group(options, PeerTask::echo);
    Peer second(of_member(options, 1), PeerTask::echo);
    // Answered by a root that does something; waiting is enough.
    while (!second.has_ended()) CHECK_FALSE(need(group.root->receive_answer(milliseconds(100))));
    CHECK(second.wait() != 0);
    CHECK_THAT(second.said(), Contains("member 1 of 2 is in this group already"));
    group.send(Record{1});
    CHECK(group.answer().bytes == Record{1});
    group.end();
}

TEST_CASE("signals that an engine handles fail no call of a root") {
    Group group(tcp_options(Transport::zmq, 2), PeerTask::echo);
    const FrequentSignals signals;
    for (std::uint64_t number = 0; number < 5000; ++number) {
        const Record record = numbered(number, 8);
        group.send(record);
        REQUIRE(group.answer().bytes == record);
    }
    group.end();
}

TEST_CASE("a record that is too long is refused, and the group goes on") {
    Group group(tcp_options(Transport::zmq, 2), PeerTask::echo);
    const Record large(proto::kMaxRecordBytes + 1);
    CHECK_THAT(group.root->send(large).error().message, Contains("67108865") && Contains("0 to 67108864"));
    group.send(Record{5});
    CHECK(group.answer().bytes == Record{5});
    CHECK_THAT(group.root->receive(milliseconds(0)).error().message, Contains("only a member"));
    group.end();
}

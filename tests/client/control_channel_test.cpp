#include "client/control_channel.h"

#include <catch2/catch.hpp>
#include <functional>
#include <thread>
#include <vector>

#include "testing/session_files.h"

using namespace croupier;
using Catch::Matchers::Contains;
using client::ControlChannel;
using testing::need;

namespace {

using Bytes = std::vector<std::uint8_t>;
using Answers = std::vector<Bytes>;
constexpr std::chrono::milliseconds kAmple{10000};

template <typename Fill>
Bytes message(std::uint64_t request, Fill&& fill) {
    flatbuffers::FlatBufferBuilder builder;
    wire::finish(builder, request, fill(builder));
    return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

Bytes statistics(std::uint64_t request, const char* json) {
    return message(request, [&](auto& builder) { return wire::CreateStatisticsReplyDirect(builder, json); });
}

// The other end of the wire: answers each request with the frames that `answer` gives for its number.
class Peer {
  public:
    Peer(const std::string& endpoint, std::size_t requests, std::function<Answers(std::uint64_t)> answer)
        : socket_(context_, zmq::socket_type::router) {
        socket_.set(zmq::sockopt::linger, 0);
        // A client may give up before its request was sent.
        socket_.set(zmq::sockopt::rcvtimeo, 20000);
        socket_.bind(endpoint);
        thread_ = std::jthread([this, requests, answer = std::move(answer)] {
            for (std::size_t i = 0; i < requests; ++i) serve(answer);
        });
    }

  private:
    void serve(const std::function<Answers(std::uint64_t)>& answer) {
        zmq::message_t identity;
        zmq::message_t body;
        if (!socket_.recv(identity) || !socket_.recv(body)) return;
        const Bytes bytes(body.data<std::uint8_t>(), body.data<std::uint8_t>() + body.size());
        for (const Bytes& frame : answer(wire::GetMessage(bytes.data())->request())) {
            socket_.send(zmq::buffer(identity.data<char>(), identity.size()), zmq::send_flags::sndmore);
            socket_.send(zmq::buffer(frame));
        }
    }

    zmq::context_t context_;
    zmq::socket_t socket_;
    std::jthread thread_;
};

struct Asked {
    shm::Result<bool> result;
    std::string json;
};

Asked ask(ControlChannel& channel) {
    std::string json;
    flatbuffers::FlatBufferBuilder builder;
    const auto question = wire::CreateStatistics(builder);
    auto result = channel.ask<wire::StatisticsReply>(
        builder, question, [&](const wire::StatisticsReply& reply) { json = reply.json()->str(); });
    return {std::move(result), json};
}

struct Wire {
    testing::ShmDirectory directory;
    std::string endpoint = "ipc://" + directory.path() + "/control.sock";
    zmq::context_t context;

    ControlChannel connect(std::chrono::milliseconds timeout) {
        return need(ControlChannel::connect(context, endpoint, {}, timeout));
    }
};

}  // namespace

TEST_CASE("an answer reaches the request with its number, whatever comes before it") {
    Wire wire;
    const Peer peer(wire.endpoint, 2, [](std::uint64_t request) {
        return Answers{statistics(request - 1, "late"), statistics(request, "due"),
                       statistics(request, "twice")};
    });
    ControlChannel channel = wire.connect(kAmple);
    CHECK(ask(channel).json == "due");
    CHECK(ask(channel).json == "due");
}

TEST_CASE("a refusal comes back as the error that the daemon named, with its text") {
    Wire wire;
    const auto [code, wanted] = GENERATE(table<std::uint32_t, shm::Errc>(
        {{static_cast<std::uint32_t>(shm::Errc::already_held), shm::Errc::already_held},
         {static_cast<std::uint32_t>(shm::Errc::no_memory), shm::Errc::no_memory},
         {0U, shm::Errc::refused},
         {4711U, shm::Errc::refused}}));
    const std::uint32_t sent = code;
    const Peer peer(wire.endpoint, 1, [sent](std::uint64_t request) {
        return Answers{message(request, [&](auto& builder) {
            return wire::CreateRefusalDirect(builder, sent, "the quota is full");
        })};
    });
    ControlChannel channel = wire.connect(kAmple);
    const Asked asked = ask(channel);
    REQUIRE_FALSE(asked.result);
    CHECK(asked.result.error().code == wanted);
    CHECK(asked.result.error().message == "the quota is full");
}

TEST_CASE("an answer of another type is refused by both names") {
    Wire wire;
    const Peer peer(wire.endpoint, 1, [](std::uint64_t request) {
        return Answers{message(request, [](auto& builder) { return wire::CreateDraining(builder, 3); })};
    });
    ControlChannel channel = wire.connect(kAmple);
    CHECK_THAT(ask(channel).result.error().message, Contains("Draining") && Contains("StatisticsReply"));
}

TEST_CASE("bytes that are no message, or one of another version, are an error that says so") {
    Wire wire;
    Bytes answer;
    std::string wanted;
    SECTION("no message") {
        answer = Bytes(100, 0x5A);
        wanted = "not a croupier message";
    }
    SECTION("cut short") {
        answer = statistics(1, "a long enough text");
        answer.resize(answer.size() / 2);
        wanted = "damaged";
    }
    SECTION("another version") {
        flatbuffers::FlatBufferBuilder builder;
        const auto body = wire::CreateStatisticsReplyDirect(builder, "{}").Union();
        wire::FinishMessageBuffer(builder,
                                  wire::CreateMessage(builder, 99, 1, wire::Body::StatisticsReply, body));
        answer.assign(builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
        wanted = "wire version 99";
    }
    const Peer peer(wire.endpoint, 1, [&](std::uint64_t) { return Answers{answer}; });
    ControlChannel channel = wire.connect(kAmple);
    const Asked asked = ask(channel);
    REQUIRE_FALSE(asked.result);
    CHECK(asked.result.error().code == shm::Errc::wrong_version);
    CHECK_THAT(asked.result.error().message, Contains(wire.endpoint) && Contains(wanted));
}

TEST_CASE("a question that finds no answer times out") {
    Wire wire;
    const Peer peer(wire.endpoint, 1, [](std::uint64_t) { return Answers{}; });
    ControlChannel channel = wire.connect(std::chrono::milliseconds(200));
    const Asked asked = ask(channel);
    REQUIRE_FALSE(asked.result);
    CHECK(asked.result.error().code == shm::Errc::timed_out);
    CHECK_THAT(asked.result.error().message, Contains(wire.endpoint));
}

// A handshake may be over before connect() has returned.
TEST_CASE("a request that ends its connection is told at once, however soon the connection was there") {
    const testing::ShmDirectory directory;
    const std::string endpoint = "ipc://" + directory.path() + "/control.sock";
    zmq::context_t of_daemon;
    zmq::socket_t daemon(of_daemon, zmq::socket_type::router);
    daemon.set(zmq::sockopt::maxmsgsize, std::int64_t{4096});
    daemon.bind(endpoint);
    zmq::context_t context;
    const std::string name(8000, 'n');
    for (int round = 0; round < 1000; ++round) {
        auto channel = need(ControlChannel::connect(context, endpoint, {}, std::chrono::milliseconds(5000)));
        flatbuffers::FlatBufferBuilder builder;
        const auto question = wire::CreateOpenDirect(builder, name.c_str());
        const auto result = channel.ask<wire::SessionInfo>(builder, question, [](const auto&) {});
        REQUIRE_FALSE(result);
        INFO("round " << round);
        REQUIRE_THAT(result.error().message, Contains("ended the connection during a request of"));
    }
}

TEST_CASE("an answer that came before its connection ended is not taken for none") {
    const testing::ShmDirectory directory;
    const std::string name(8000, 'n');
    for (int round = 0; round < 300; ++round) {
        const std::string endpoint = "ipc://" + directory.path() + "/" + std::to_string(round);
        const std::jthread daemon([&endpoint] {
            zmq::context_t context;
            zmq::socket_t socket(context, zmq::socket_type::router);
            socket.set(zmq::sockopt::rcvtimeo, 20000);
            socket.set(zmq::sockopt::linger, 20000);
            socket.bind(endpoint);
            zmq::message_t identity;
            zmq::message_t body;
            if (!socket.recv(identity) || !socket.recv(body)) return;
            const Bytes answer = message(wire::GetMessage(body.data())->request(), [](auto& builder) {
                return wire::CreateRefusalDirect(builder, 0, "it drains");
            });
            socket.send(identity, zmq::send_flags::sndmore);
            socket.send(zmq::buffer(answer));
        });
        zmq::context_t context;
        auto channel = need(ControlChannel::connect(context, endpoint, {}, kAmple));
        flatbuffers::FlatBufferBuilder builder;
        const auto question = wire::CreateOpenDirect(builder, name.c_str());
        const auto result = channel.ask<wire::SessionInfo>(builder, question, [](const auto&) {});
        REQUIRE_FALSE(result);
        INFO("round " << round);
        REQUIRE(result.error().message == "it drains");
    }
}

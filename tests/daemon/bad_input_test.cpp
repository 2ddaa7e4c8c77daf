// Whatever comes in over the sockets: it is answered with what is wrong, and nobody else notices.
#include <catch2/catch.hpp>
#include <random>

#include "proto/zmq_calls.h"
#include "testing/daemon_process.h"
#include "testing/small_engine.h"
#include "tests/daemon/control_peer.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;
using flatbuffers::FlatBufferBuilder;

namespace {

// An engine whose steps must go on, checked against the reference, whatever is sent meanwhile.
struct Undisturbed {
    DaemonProcess daemon{kTwoSamplers, ""};
    SmallEngine engine{daemon.endpoint(), "undisturbed"};

    Undisturbed() { engine.admit(8); }
    void goes_on() {
        engine.steps(2);
        CHECK(daemon.sampler_restarts() == 0);
    }
};

std::string bytes_of(const FlatBufferBuilder& builder) {
    return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

template <typename Table>
std::string message_of(FlatBufferBuilder& builder, flatbuffers::Offset<Table> body, std::uint32_t version) {
    wire::FinishMessageBuffer(
        builder, wire::CreateMessage(builder, version, 5, wire::BodyTraits<Table>::enum_value, body.Union()));
    return bytes_of(builder);
}

std::string statistics(std::uint32_t version) {
    FlatBufferBuilder builder;
    return message_of(builder, wire::CreateStatistics(builder), version);
}

std::string an_open() {
    FlatBufferBuilder builder;
    const std::vector<std::uint32_t> order(8, 1);
    return message_of(
        builder,
        wire::CreateOpenDirect(builder, "name", 500, 1, 8, 2, 0, 64, 8, 64, 4, 4, 0, nullptr, &order),
        wire::kWireVersion);
}

}  // namespace

TEST_CASE("random bytes of every size are refused on the control socket, and steps go on meanwhile") {
    Undisturbed other;
    ControlPeer peer(other.daemon.endpoint());
    std::mt19937 random(1);
    for (std::size_t size = 0; size < 4000; size = size * 3 / 2 + 1) {
        std::string junk(size, '\0');
        for (auto& byte : junk) byte = static_cast<char>(random());
        peer.send(junk.data(), junk.size());
        INFO(size << " bytes");
        CHECK_THAT(peer.refusal(), Contains("not a croupier message"));
        other.engine.step();
    }
    other.goes_on();
}

TEST_CASE("a message that is cut short or bent is refused or answered, never believed") {
    Undisturbed other;
    ControlPeer peer(other.daemon.endpoint());
    const std::string sound = an_open();
    for (std::size_t size = 8; size < sound.size(); size += 37) {
        peer.send(sound.data(), size);
        CHECK_THAT(peer.refusal(), Contains("damaged"));
    }
    std::mt19937 random(2);
    for (int round = 0; round < 500; ++round) {
        std::string bent = sound;
        // The identifier stays, so that the bytes come as far as the verifier.
        for (int i = 0; i < 3; ++i) bent[8 + random() % (bent.size() - 8)] = static_cast<char>(random());
        peer.send(bent.data(), bent.size());
        REQUIRE(peer.receive() != nullptr);
        if (round % 100 == 0) other.engine.step();
    }
    other.goes_on();
}

TEST_CASE("a request that is not exactly one frame is refused, with the number of its frames") {
    Undisturbed other;
    ControlPeer peer(other.daemon.endpoint());
    peer.send({"", ""});
    CHECK_THAT(peer.refusal(), Contains("one frame; this one had 2"));
    peer.send(std::vector<std::string>(20, statistics(wire::kWireVersion)));
    CHECK_THAT(peer.refusal(), Contains("one frame; this one had 20"));
    peer.send(std::vector<std::string>{""});
    CHECK_THAT(peer.refusal(), Contains("not a croupier message"));
    other.goes_on();
}

TEST_CASE("a message of another wire version is refused, naming both versions") {
    Undisturbed other;
    ControlPeer peer(other.daemon.endpoint());
    const std::string message = statistics(wire::kWireVersion + 41);
    peer.send(message.data(), message.size());
    CHECK_THAT(peer.refusal(), Contains("wire version 42") && Contains("speaks 1"));
    other.goes_on();
}

TEST_CASE("a message whose body is not a request is refused, naming the body's type") {
    Undisturbed other;
    ControlPeer peer(other.daemon.endpoint());
    const auto refused = [&](const std::string& message) {
        peer.send(message.data(), message.size());
        return peer.refusal();
    };
    const auto check = [&](const char* name, auto&& make) {
        FlatBufferBuilder builder;
        CHECK_THAT(refused(message_of(builder, make(builder), wire::kWireVersion)),
                   Contains(std::string("a ") + name + " is no request") && Contains("Statistics"));
    };
    check("SessionInfo", [](auto& b) { return wire::CreateSessionInfoDirect(b, 1, "path"); });
    check("Closed", [](auto& b) { return wire::CreateClosed(b, 1); });
    check("Configured", [](auto& b) { return wire::CreateConfigured(b, 1); });
    check("Draining", [](auto& b) { return wire::CreateDraining(b, 1); });
    check("StatisticsReply", [](auto& b) { return wire::CreateStatisticsReplyDirect(b, "{}"); });
    check("Refusal", [](auto& b) { return wire::CreateRefusalDirect(b, 1, "no"); });
    check("StepDecisions", [](auto& b) { return wire::CreateStepDecisions(b, 1); });
    other.goes_on();
}

TEST_CASE("requests for sessions that do not exist are refused with the id") {
    Undisturbed other;
    ControlPeer peer(other.daemon.endpoint());
    FlatBufferBuilder close;
    wire::finish(close, 1, wire::CreateClose(close, 4711));
    peer.send(close);
    CHECK_THAT(peer.refusal(), Contains("no session has the id 4711"));
    FlatBufferBuilder configure;
    wire::finish(configure, 1, wire::CreateConfigure(configure, 4711, true));
    peer.send(configure);
    CHECK_THAT(peer.refusal(), Contains("no session has the id 4711"));
    other.goes_on();
}

TEST_CASE("an Open of impossible numbers is refused naming the field") {
    Undisturbed other;
    ControlPeer peer(other.daemon.endpoint());
    const auto refused = [&](auto&& change) {
        std::vector<std::uint32_t> numbers = {500, 1, 8, 2, 0, 64, 8, 64, 4, 4, 0};
        change(numbers);
        FlatBufferBuilder builder;
        wire::finish(
            builder, 1,
            wire::CreateOpenDirect(builder, "raw", numbers[0], numbers[1], numbers[2], numbers[3], numbers[4],
                                   numbers[5], numbers[6], numbers[7], numbers[8], numbers[9], numbers[10]));
        peer.send(builder);
        return peer.refusal();
    };
    const std::vector<const char*> fields = {"vocab", "tp",   "max_batch",     "slots",
                                             "dtype", "tile", "max_sequences", "max_length"};
    for (std::size_t field = 0; field < fields.size(); ++field) {
        INFO(fields[field]);
        CHECK_THAT(refused([&](auto& numbers) { numbers[field] = 0xFFFFFFFFU; }), Contains(fields[field]));
        if (field == 4) continue;  // dtype 0 is bf16
        CHECK_THAT(refused([&](auto& numbers) { numbers[field] = 0; }), Contains(fields[field]));
    }
    const std::vector<std::pair<const char*, const char*>> names = {
        {"", "is empty"},
        {"two words", "has a blank"},
        {"0123456789012345678901234567890123456789012345678901234567890123", "has 64 bytes"}};
    for (const auto& [name, fault] : names) {
        FlatBufferBuilder builder;
        wire::finish(builder, 1, wire::CreateOpenDirect(builder, name, 500, 1, 8, 2, 0, 64, 8, 64, 4, 4, 0));
        peer.send(builder);
        CHECK_THAT(peer.refusal(), Contains(fault) && Contains("1 to 63 printable characters"));
    }
    other.goes_on();
}

TEST_CASE("a message beyond max_message_bytes costs its sender the connection and nobody else") {
    const DaemonProcess sizes;
    const std::string control =
        "control: {endpoint: \"" + sizes.endpoint() + "2\", max_message_bytes: 64KiB}";
    const DaemonProcess daemon(kTwoSamplers, control);
    SmallEngine engine(sizes.endpoint() + "2", "engine");
    engine.admit(8);
    ControlPeer peer(sizes.endpoint() + "2");
    zmq::socket_t monitor =
        proto::monitor_of(peer.context(), peer.socket(), "inproc://monitor", ZMQ_EVENT_DISCONNECTED);
    const std::string large(1 << 20U, 'x');
    peer.send(large.data(), large.size());
    zmq::pollitem_t item{monitor.handle(), 0, ZMQ_POLLIN, 0};
    CHECK(zmq::poll(&item, 1, std::chrono::seconds(20)) == 1);
    // Before its reader goes, for which libzmq would wait.
    zmq_socket_monitor(peer.socket().handle(), nullptr, 0);
    engine.steps(3);
}

TEST_CASE("garbage on the control socket is refused, and another client's streamed decisions go on") {
    const DaemonProcess daemon;
    EngineShape shape;
    shape.decisions_over_zmq = true;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    engine.admit(8);
    ControlPeer peer(daemon.endpoint());
    std::mt19937 random(3);
    for (std::size_t size = 0; size < 4000; size = size * 2 + 1) {
        std::string junk(size, '\0');
        for (auto& byte : junk) byte = static_cast<char>(random());
        peer.send(junk.data(), junk.size());
        INFO(size << " bytes");
        CHECK_THAT(peer.refusal(), Contains("not a croupier message"));
        engine.step();
    }
    peer.send({"a", "b", "c"});
    CHECK_THAT(peer.refusal(), Contains("one frame"));
    engine.steps(3);
}

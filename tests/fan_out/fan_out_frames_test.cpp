// What a member and a root do with frames that are none, are damaged, or belong to somebody else.
#include <array>
#include <catch2/catch.hpp>
#include <functional>
#include <future>
#include <thread>
#include <zmq_addon.hpp>

#include "proto/fan_out_frame.h"
#include "testing/session_files.h"
#include "tests/fan_out/fan_out_peer.h"
#include "tests/fan_out/raw_root.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;
using fan_out::FanOutOptions;
using proto::FanOutBytes;
using proto::FanOutHeader;
using proto::FanOutKind;
using std::chrono::milliseconds;

namespace {

FanOutOptions ipc_options(const ShmDirectory& directory) {
    FanOutOptions options;
    options.endpoint = "ipc://" + directory.path() + "/fan-out.sock";
    options.join_timeout = milliseconds(20000);
    return options;
}

FanOutBytes record(std::uint64_t number) {
    return proto::fan_out_frame(header_of(FanOutKind::record, number), FanOutBytes{1, 2, 3});
}

struct BadFrame {
    const char* says;
    std::function<FanOutBytes()> frame;
};

FanOutBytes spoiled(FanOutBytes frame, std::size_t at) {
    frame.at(at) ^= 0x10U;
    return frame;
}

}  // namespace

TEST_CASE("a member refuses, and names, whatever is not the next record of its session") {
    const auto bad = GENERATE(values<BadFrame>({
        {"record 3 came after record 1", [] { return record(3); }},
        {"record 1 came after record 1", [] { return record(1); }},
        {"a record of session 78 came, this member is in session 77",
         [] {
             FanOutHeader header = header_of(FanOutKind::record, 2);
             header.session = 78;
             return proto::fan_out_frame(header, FanOutBytes{1});
         }},
        {"a fan-out's with 0x31304e4146505243", [] { return spoiled(record(2), 0); }},
        {"the peer speaks fan-out version 18, this build speaks 2", [] { return spoiled(record(2), 8); }},
        {"announces 3 bytes after a header of 64, and has 2",
         [] {
             FanOutBytes frame = record(2);
             frame.pop_back();
             return frame;
         }},
        {"a frame has 63 bytes, its header alone has 64", [] { return FanOutBytes(63); }},
        {"is damaged: its checksum is", [] { return spoiled(record(2), 66); }},
        {"is damaged: its checksum is", [] { return spoiled(record(2), 24); }},
        {"a frame is of kind 99, which version 2 does not know",
         [] { return proto::fan_out_frame(header_of(static_cast<FanOutKind>(99)), {}); }},
        {"the root refuses: no",
         [] {
             return proto::fan_out_frame(header_of(FanOutKind::refusal), FanOutBytes{'n', 'o'});
         }},
    }));
    const ShmDirectory directory;
    FanOutOptions options = ipc_options(directory);
    options.member = 1;
    RawRoot root(options.endpoint);
    std::thread welcoming([&] { root.welcome(); });
    auto member = fan_out::open_fan_out(options);
    welcoming.join();
    const auto joined = need(std::move(member));
    root.send(record(1));
    REQUIRE(need(joined->receive(milliseconds(20000))));
    root.send(bad.frame());
    root.send(record(2));
    const auto refused = joined->receive(milliseconds(20000));
    REQUIRE_FALSE(refused);
    CHECK_THAT(refused.error().message,
               Contains(bad.says) && Contains("member 1 of the fan-out of 2") && Contains(options.endpoint));
    // What comes after it is not taken up again.
    CHECK_FALSE(joined->receive(milliseconds(0)));
}

TEST_CASE("a member waits for a root after the one that left before the group began") {
    const ShmDirectory directory;
    FanOutOptions options = ipc_options(directory);
    options.member = 1;
    SECTION("which comes") {
        auto opening = std::async(std::launch::async, [&] { return fan_out::open_fan_out(options); });
        { RawRoot(options.endpoint).await_hello(); }
        RawRoot second(options.endpoint);
        second.welcome();
        need(opening.get());
    }
    SECTION("and says that none came") {
        options.join_timeout = milliseconds(2000);
        auto opening = std::async(std::launch::async, [&] { return fan_out::open_fan_out(options); });
        { RawRoot(options.endpoint).await_hello(); }
        const auto alone = opening.get();
        REQUIRE_FALSE(alone);
        CHECK(alone.error().code == shm::Errc::timed_out);
        CHECK_THAT(alone.error().message, Contains("the root ended, or its connection was cut, before the "
                                                   "group began, and none took its place within 2000 ms"));
    }
}

TEST_CASE("every changed bit of a frame is seen") {
    const FanOutBytes sound = proto::fan_out_frame(header_of(FanOutKind::record, 1),
                                                   FanOutBytes{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
    proto::FanOutFrame frame;
    REQUIRE_FALSE(proto::read_fan_out_frame(sound, frame));
    CHECK(frame.payload.size() == 11);
    for (std::size_t bit = 0; bit < sound.size() * 8; ++bit) {
        FanOutBytes changed = sound;
        changed[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
        CHECK(proto::read_fan_out_frame(changed, frame));
    }
    for (std::size_t size = 0; size < sound.size(); ++size) {
        CHECK(proto::read_fan_out_frame(std::span(sound).first(size), frame));
    }
}

TEST_CASE("a root refuses strangers by name, and its group goes on without them") {
    const ShmDirectory directory;
    const FanOutOptions options = ipc_options(directory);
    FanOutHeader outside = header_of(FanOutKind::hello);
    outside.member = 5;
    const std::vector<FanOutBytes> wrong = {
        FanOutBytes(10), spoiled(proto::fan_out_frame(header_of(FanOutKind::hello), {}), 8),
        proto::fan_out_frame(outside, {}),
        proto::fan_out_frame(header_of(FanOutKind::answer), FanOutBytes{1})};
    // It waits for its member meanwhile.
    auto opening = std::async(std::launch::async, [&] { return fan_out::open_fan_out(options); });
    zmq::context_t context;
    zmq::socket_t stranger(context, zmq::socket_type::dealer);
    stranger.set(zmq::sockopt::linger, 0);
    stranger.set(zmq::sockopt::rcvtimeo, 20000);
    stranger.connect(options.endpoint);
    std::vector<std::string> refusals;
    for (const FanOutBytes& frame : wrong) {
        stranger.send(zmq::buffer(frame));
        zmq::message_t message;
        proto::FanOutFrame answer;
        REQUIRE(stranger.recv(message));
        REQUIRE_FALSE(read_fan_out_frame({message.data<std::uint8_t>(), message.size()}, answer));
        REQUIRE(answer.header.kind == FanOutKind::refusal);
        refusals.emplace_back(answer.payload.begin(), answer.payload.end());
    }
    FanOutOptions of_peer = options;
    of_peer.member = 1;
    Peer peer(of_peer, PeerTask::count);
    const auto root = need(opening.get());
    REQUIRE(refusals.size() == 4);
    CHECK_THAT(refusals[0], Contains("a frame has 10 bytes"));
    CHECK_THAT(refusals[1], Contains("the peer speaks fan-out version 18, this build speaks 2"));
    CHECK_THAT(refusals[2], Contains("member 5 of 2 has no place here"));
    CHECK_THAT(refusals[3], Contains("it has no place in this group"));
    CHECK(need(root->send(FanOutBytes{1, 0, 0, 0, 0, 0, 0, 0})));
    CHECK(need(root->send(FanOutBytes{'e', 'n', 'd'})));
    CHECK(need(root->receive_answer(milliseconds(20000))));
    CHECK(peer.wait() == 0);
}

#include "proto/curve.h"

#include <array>
#include <catch2/catch.hpp>
#include <iterator>
#include <string>
#include <vector>
#include <zmq_addon.hpp>

namespace croupier::proto {

namespace {

// RFC 32's own example.
const std::string kRawKey(
    "\x8E\x0B\xDD\x69\x76\x28\xB9\x1D\x8F\x24\x55\x87\xEE\x95\xC5\xB0"
    "\x4D\x48\x96\x3F\x79\x25\x98\x77\xB4\x9C\xD9\x06\x3A\xEA\xD3\xB7",
    32);
const std::string kKey = "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6";

class Knock {
  public:
    Knock() : door(context_), peer_(context_, zmq::socket_type::req) {
        peer_.connect("inproc://zeromq.zap.01");
    }

    ZapRequest with(const std::vector<std::string>& frames) {
        std::vector<zmq::const_buffer> buffers;
        buffers.reserve(frames.size());
        for (const std::string& frame : frames) buffers.push_back(zmq::buffer(frame));
        zmq::send_multipart(peer_, buffers);
        return door.receive().value();
    }
    std::vector<std::string> answer() {
        std::vector<zmq::message_t> frames;
        REQUIRE(zmq::recv_multipart(peer_, std::back_inserter(frames)));
        std::vector<std::string> texts;
        texts.reserve(frames.size());
        for (const zmq::message_t& frame : frames) texts.push_back(frame.to_string());
        return texts;
    }

  private:
    zmq::context_t context_;

  public:
    ZapDoor door;

  private:
    zmq::socket_t peer_;
};

}  // namespace

TEST_CASE("curve: a key is 40 characters of Z85") {
    CHECK(is_curve_key(kKey));
    CHECK_FALSE(is_curve_key(""));
    CHECK_FALSE(is_curve_key(kKey.substr(1)));
    CHECK_FALSE(is_curve_key(kKey + "00000"));
    CHECK_FALSE(is_curve_key(std::string(39, '0') + "\""));
    CHECK_FALSE(key_length_fault("tcp://a:1", {{"key", kKey}}).has_value());
    CHECK(key_length_fault("tcp://a:1", {{"key", kKey}, {"other", "short"}}) ==
          "tcp://a:1 is reached over tcp, which needs CURVE: other has 5 characters, a Z85 key has 40");
}

TEST_CASE("curve: who knocks with a key is known by it, and answered") {
    Knock knock;
    const ZapRequest request = knock.with({"1.0", "7", "croupier", "10.0.0.1", "", "CURVE", kRawKey});
    CHECK(request.key == kKey);
    CHECK(request.address == "10.0.0.1");
    knock.door.answer(request, true, request.key);
    CHECK(knock.answer() == std::vector<std::string>{"1.0", "7", "200", "", kKey, ""});
}

TEST_CASE("curve: who knocks without a CURVE key has none, whatever the frames") {
    Knock knock;
    const std::vector<std::vector<std::string>> knocks{
        {"1.0", "7", "croupier", "10.0.0.1", "", "PLAIN", kRawKey},
        {"1.0", "7", "croupier", "10.0.0.1", "", "CURVE", kRawKey.substr(1)},
        {"1.0", "7", "croupier", "10.0.0.1", "", "CURVE", kRawKey, "more"},
        {"1.0", "7"},
    };
    for (const auto& frames : knocks) {
        const ZapRequest request = knock.with(frames);
        CHECK(request.key.empty());
        knock.door.answer(request, false);
        CHECK(knock.answer() == std::vector<std::string>{"1.0", "7", "400", "", "", ""});
    }
    CHECK_FALSE(knock.door.receive(zmq::recv_flags::dontwait).has_value());
}

}  // namespace croupier::proto

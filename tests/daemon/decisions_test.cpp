// The whole chain decides what the reference decides, whatever the way the work is cut and carried.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "shm/segment.h"
#include "testing/daemon_process.h"
#include "testing/small_engine.h"
#include "tests/daemon/control_peer.h"

using namespace croupier;
using namespace croupier::testing;

namespace {

constexpr int kSteps = 12;

Streams streams_of(const DaemonProcess& daemon, const EngineShape& shape) {
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    engine.admit(shape.batch);
    engine.steps(kSteps);
    return engine.streams();
}

std::vector<std::uint32_t> permutation(std::uint32_t vocab) {
    std::vector<std::uint32_t> order(proto::blocks_of(vocab));
    std::iota(order.begin(), order.end(), 0U);
    std::shuffle(order.begin(), order.end(), std::mt19937(7));
    return order;
}

}  // namespace

TEST_CASE("neither tiles nor ranks nor the way of the decisions change a token") {
    const DaemonProcess daemon;
    const Streams plain = streams_of(daemon, {});
    REQUIRE(plain.size() == 8);
    for (const auto& [uid, stream] : plain) REQUIRE(stream.size() == kSteps);
    for (const std::uint32_t tile : {1U, 64U}) {
        for (const std::uint32_t tp : {1U, 2U, 3U}) {
            for (const bool zmq : {false, true}) {
                INFO("tile " << tile << ", tp " << tp << (zmq ? ", ZMQ" : ", ring"));
                EngineShape shape;
                shape.tile = tile;
                shape.tp = tp;
                shape.decisions_over_zmq = zmq;
                CHECK(streams_of(daemon, shape) == plain);
            }
        }
    }
}

TEST_CASE("neither an uneven cut of the vocabulary nor padding behind it changes a token") {
    const DaemonProcess daemon;
    EngineShape shape;
    shape.vocab = 1003;
    const Streams plain = streams_of(daemon, shape);
    for (const std::uint32_t tp : {1U, 3U, 8U}) {
        for (const std::uint32_t padded : {0U, 1024U, 2400U}) {
            for (const bool summaries : {false, true}) {
                INFO("tp " << tp << ", padded to " << padded << ", summaries " << summaries);
                shape.tp = tp;
                shape.padded_vocab = padded;
                shape.summaries = summaries;
                CHECK(streams_of(daemon, shape) == plain);
            }
        }
    }
}

TEST_CASE("neither the number of samplers nor that of their threads changes a token") {
    const Streams one = streams_of(DaemonProcess("{count: 1}"), {});
    CHECK(streams_of(DaemonProcess("{count: 2, wait: sleep}"), {}) == one);
    CHECK(streams_of(DaemonProcess("{count: 4, pin: false}"), {}) == one);
    CHECK(streams_of(DaemonProcess("{count: 1, threads_per_sampler: 2}"), {}) == one);
    CHECK(streams_of(DaemonProcess("{count: 2, threads_per_sampler: 2, wait: spin}"), {}) == one);
}

TEST_CASE("no hotness order changes a token, at one rank or at several") {
    const DaemonProcess daemon;
    const Streams plain = streams_of(daemon, {});
    EngineShape shape;
    shape.order = permutation(shape.vocab);
    for (const std::uint32_t tp : {1U, 3U}) {
        shape.tp = tp;
        INFO("tp " << tp);
        CHECK(streams_of(daemon, shape) == plain);
    }
}

TEST_CASE("grammar masks reach the decision, step by step, by ring and by ZMQ") {
    const DaemonProcess daemon;
    EngineShape shape;
    shape.masked = true;
    const Streams masked = streams_of(daemon, shape);
    for (const auto& [uid, stream] : masked) {
        for (std::uint32_t position = 0; position < stream.size(); ++position) {
            const auto token = static_cast<std::uint32_t>(stream[position]);
            INFO("sequence " << uid << " at position " << position);
            CHECK((SmallEngine::mask(shape.vocab, uid, position)[token / 32] >> token % 32 & 1U) == 1);
        }
    }
    shape.decisions_over_zmq = true;
    CHECK(streams_of(daemon, shape) == masked);
}

TEST_CASE("randoms from the writer are the ones that are drawn with") {
    const DaemonProcess daemon;
    // The race makes its own; a proposal's first choice is the writer's.
    EngineShape shape;
    shape.rng = CROUPIER_RNG_SHVS;
    const Streams computed = streams_of(daemon, shape);
    shape.randoms_supplied = true;
    const Streams supplied = streams_of(daemon, shape);
    CHECK(supplied != computed);
    shape.tp = 3;
    CHECK(streams_of(daemon, shape) == supplied);
}

TEST_CASE("eight steps in flight give the streams of one at a time") {
    const DaemonProcess daemon;
    EngineShape shape;
    shape.steps_in_flight = 8;
    SmallEngine engine(daemon.endpoint(), "deep", shape);
    engine.admit(8);
    for (int round = 0; round < kSteps; ++round) {
        for (std::uint64_t uid = 1; uid <= 8; ++uid) {
            const croupier_column column = croupier_column_of(uid);
            engine.session().submit({&column, 1});
        }
        for (int i = 0; i < 8; ++i) engine.write();
        for (int i = 0; i < 8; ++i) engine.collect_columns(1);
    }
    SmallEngine plain(daemon.endpoint(), "plain");
    plain.admit(8);
    plain.steps(kSteps);
    CHECK(engine.streams() == plain.streams());
}

TEST_CASE("EOS, stop ids, min_tokens and max_tokens are flagged where the reference flags them") {
    const DaemonProcess daemon;
    const EngineShape shape;
    // The second greedy token of the row sequence 4 sees, so that the stops are sure to be met.
    SmallEngine scout(daemon.endpoint(), "scout", shape);
    scout.admit(4);
    scout.steps(4);
    const std::int32_t met = scout.streams().at(4)[1];
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    auto asked = SmallEngine::sequence(4, shape.vocab);
    asked.params.eos_token_id = met;
    engine.admit(asked);
    engine.steps(4);
    CHECK((engine.decisions().at(4)[1].flags & CROUPIER_STOPPED) == CROUPIER_STOPPED_EOS);
    CHECK((engine.decisions().at(4)[0].flags & CROUPIER_STOPPED) == 0);

    SmallEngine stops(daemon.endpoint(), "stops", shape);
    asked = SmallEngine::sequence(4, shape.vocab);
    asked.stop_ids = {met};
    asked.params.max_tokens = 3;
    stops.admit(asked);
    stops.steps(3);
    CHECK((stops.decisions().at(4)[1].flags & CROUPIER_STOPPED) == CROUPIER_STOPPED_TOKEN);
    CHECK((stops.decisions().at(4)[2].flags & CROUPIER_STOPPED_LENGTH) != 0);

    SmallEngine late(daemon.endpoint(), "late", shape);
    asked.params.min_tokens = 3;
    late.admit(asked);
    late.steps(3);
    CHECK(late.streams().at(4)[1] != met);
    CHECK((late.decisions().at(4)[1].flags & CROUPIER_STOPPED) == 0);
}

TEST_CASE("a client over ZMQ whose subscription another peer took gets every step, and subscribes again") {
    const DaemonProcess daemon;
    EngineShape shape;
    shape.decisions_over_zmq = true;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    engine.admit(8);
    engine.step();
    const auto segment = shm::Segment::attach(engine.segment_path(), shm::Access::read_only);
    ControlPeer other(daemon.endpoint());
    flatbuffers::FlatBufferBuilder builder;
    wire::finish(builder, 1, wire::CreateConfigure(builder, segment.value().id(), true));
    other.send(builder);
    REQUIRE(other.receive() != nullptr);
    CHECK(eventually([&] {
        while (other.receive(std::chrono::milliseconds(0)) != nullptr) continue;
        engine.step();
        return other.receive(std::chrono::milliseconds(100)) == nullptr;
    }));
}

// The hot set of a session's sequences: from the configuration or from what draws cost, kept for a sequence's
// life, and seen from outside.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <numeric>
#include <random>

#include "shm/snapshot.h"
#include "testing/daemon_process.h"
#include "testing/small_engine.h"

using namespace croupier;
using namespace croupier::testing;
using proto::SessionCounter;

namespace {

constexpr std::uint32_t kVocab = 5000;

// The hottest blocks come from all over the vocabulary, and unevenly from the ranks.
EngineShape ordered_shape() {
    EngineShape shape;
    shape.vocab = kVocab;
    shape.tp = 3;
    shape.summaries = true;
    shape.order.resize(proto::blocks_of(kVocab));
    std::iota(shape.order.begin(), shape.order.end(), 0U);
    std::shuffle(shape.order.begin() + 8, shape.order.end(), std::mt19937(5));
    return shape;
}

client::Sequence drawing(std::uint64_t uid) {
    client::Sequence sequence = SmallEngine::sequence(uid, kVocab);
    sequence.params.temperature = 0.7;
    sequence.params.top_k = 0;
    sequence.params.top_p = 1.0;
    return sequence;
}

shm::SessionSnapshot observed(const DaemonProcess& daemon) {
    auto snapshot = shm::observe(daemon.shm_directory(), daemon.instance());
    REQUIRE(snapshot);
    REQUIRE(snapshot.value().sessions.size() == 1);
    return snapshot.value().sessions.front();
}

std::uint64_t draws_in(const shm::SessionSnapshot& session) {
    return session.counter(SessionCounter::draws_hot) + session.counter(SessionCounter::draws_tail);
}

void write_and_reload(DaemonProcess& daemon, const std::string& hot_set) {
    daemon.write_config(kTwoSamplers, hot_set);
    daemon.signal(SIGHUP);
}

}  // namespace

TEST_CASE("sequences are decided with the configured hot set, whatever its size") {
    const auto size = GENERATE(1024U, 4096U, 262144U);
    const DaemonProcess daemon(kTwoSamplers, "hot_set: {size: " + std::to_string(size) + "}");
    EngineShape shape = ordered_shape();
    shape.hot_size = size;
    shape.summaries = size != 4096U;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    for (std::uint64_t uid = 1; uid <= 8; ++uid) engine.admit(drawing(uid));
    engine.steps(20);
    CHECK(observed(daemon).hot_size == size);
}

TEST_CASE("a sequence keeps the hot set that it was admitted with") {
    DaemonProcess daemon(kTwoSamplers, "hot_set: {size: 1024}");
    EngineShape shape = ordered_shape();
    shape.hot_size = 1024;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    engine.admit(drawing(1));
    engine.steps(5);
    write_and_reload(daemon, "hot_set: {size: 16384}");
    REQUIRE(eventually([&] { return observed(daemon).hot_size == 16384; }));
    engine.steps(10);
}

TEST_CASE("a sequence keeps its hot set when the daemon is killed and comes back with another") {
    DaemonProcess daemon(kTwoSamplers, "hot_set: {size: 2048}");
    EngineShape shape = ordered_shape();
    shape.hot_size = 2048;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    engine.admit(drawing(3));
    engine.steps(5);
    daemon.write_config(kTwoSamplers, "hot_set: {size: 0}");
    daemon.restart_after_kill();
    REQUIRE(eventually([&] { return observed(daemon).hot_size == 0; }));
    engine.steps(10);
}

TEST_CASE("a session without an order has no hot set") {
    const DaemonProcess daemon(kTwoSamplers, "hot_set: {size: 4096}");
    SmallEngine engine(daemon.endpoint(), "engine", {});
    engine.admit(8);
    engine.steps(5);
    CHECK(observed(daemon).hot_size == 0);
}

TEST_CASE("draws and tiles are counted, those that were read and those that were not") {
    const DaemonProcess daemon;
    EngineShape shape = ordered_shape();
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    for (std::uint64_t uid = 1; uid <= 8; ++uid) {
        client::Sequence sequence = drawing(uid);
        sequence.params.flags |= CROUPIER_NO_LOGPROB;
        engine.admit(sequence);
    }
    for (int step = 0; step < 10; ++step) {
        engine.submit();
        engine.write();
        REQUIRE(engine.session().wait(20000));
    }
    const std::uint64_t tiles = proto::blocks_of(kVocab);
    REQUIRE(eventually([&] { return draws_in(observed(daemon)) == 80; }));
    // Tiles are counted behind the draws.
    daemon.await_idle_samplers();
    const auto session = observed(daemon);
    const std::uint64_t read = session.counter(SessionCounter::tiles_read);
    CHECK(read + session.counter(SessionCounter::tiles_skipped) == 80 * tiles);
    CHECK(read > 0);
    CHECK(read < 80 * tiles);
    CHECK(session.hot_acceptance() > 0.0);
    CHECK(session.counter(SessionCounter::draws_corrected) <= 80);
}

TEST_CASE("adapting moves the hot set of new sequences to where draws cost least, and SIGHUP ends it") {
    DaemonProcess daemon(kTwoSamplers, "hot_set: {size: 256, adapt: true, least: 256, most: 1024}");
    EngineShape shape = ordered_shape();
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    const shm::Segment segment = shm::Segment::attach(engine.segment_path(), shm::Access::read_write).value();
    auto& header = segment.header();
    CHECK(header.hot_choice.load() == 1);
    // What samplers would have measured, had draws with 1,024 ids cost least.
    const auto serve = [&](std::uint32_t choice) {
        header.hot_costs[choice].draws.fetch_add(256);
        header.hot_costs[choice].ns.fetch_add(256'000 * std::uint64_t{5 - choice});
    };
    REQUIRE(eventually([&] {
        serve(header.hot_choice.load());
        serve(header.hot_trial.load());
        return header.hot_choice.load() == 3;
    }));
    CHECK(eventually([&] { return daemon.says("goes from 512 ids to 1024"); }));
    write_and_reload(daemon, "hot_set: {size: 512, adapt: false}");
    CHECK(eventually([&] { return header.hot_choice.load() == 2 && header.hot_trial.load() == 2; }));
}

// croupier_fork(): a sequence that goes on from the outputs of another, decided as the reference decides it.
#include <catch2/catch.hpp>

#include "testing/daemon_process.h"
#include "testing/small_engine.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

EngineShape with_room(std::uint32_t steps_in_flight = 2) {
    EngineShape shape;
    shape.batch = 16;
    shape.steps_in_flight = steps_in_flight;
    return shape;
}

}  // namespace

TEST_CASE("a forked sequence goes on from where it was forked, with all that its parent asked for") {
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine", with_room());
    for (std::uint64_t uid = 1; uid <= 5; ++uid) engine.admit(SmallEngine::with_state(uid, 1000));
    engine.steps(80);
    // Of all outputs, of some, of so few that the feedback of that time is gone, of none.
    const std::uint32_t outputs = GENERATE(80U, 79U, 16U, 15U, 0U);
    for (std::uint64_t uid = 1; uid <= 5; ++uid)
        engine.fork(uid, 100 + uid, outputs, static_cast<std::uint32_t>(uid % 3));
    engine.steps(12);
    for (std::uint64_t uid = 1; uid <= 5; ++uid) engine.finish(uid);
    // A child can have children, and finds the feedback from before it was forked.
    for (std::uint64_t uid = 101; uid <= 105; ++uid) engine.fork(uid, uid + 100, outputs, 1023);
    engine.steps(4);
    for (std::uint64_t uid = 101; uid <= 105; ++uid) engine.truncate(uid, outputs);
    engine.steps(4);
}

TEST_CASE("a sequence is forked while it and its parent are in flight") {
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine", with_room(4));
    for (std::uint64_t uid = 1; uid <= 5; ++uid) engine.admit(SmallEngine::with_state(uid, 1000));
    engine.steps(10);
    for (std::uint64_t uid = 6; uid <= 14; ++uid) {
        const std::uint64_t first = engine.submit();
        const std::size_t columns = uid - 1;
        engine.write(first);
        engine.fork(1 + uid % 5, uid, 7, 2);
        engine.collect_columns(columns);
        engine.step();
    }
}

TEST_CASE("a sequence that is full is forked from fewer of its outputs") {
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine", with_room());
    client::Sequence made = SmallEngine::sequence(7, 1000);
    made.prompt.assign(with_room().max_length - 3, 5);
    engine.admit(made);
    engine.steps(3);
    CHECK_THAT(failure_of([&] { engine.session().fork(7, 8, 3, 0); }),
               Contains("tokens with 3 outputs, and no room for another"));
    engine.fork(7, 8, 2, 0);
    engine.finish(7);
    engine.step();
}

TEST_CASE("what a fork cannot do is told, and nothing has changed") {
    const DaemonProcess daemon;
    const std::size_t engine_room = with_room().max_sequences;
    SmallEngine engine(daemon.endpoint(), "engine", with_room());
    engine.admit(2);
    engine.steps(3);
    client::Session& session = engine.session();
    CHECK_THAT(failure_of([&] { session.fork(9, 10, 0, 0); }), Contains("unknown_sequence: sequence 9"));
    CHECK_THAT(failure_of([&] { session.fork(1, 2, 0, 0); }), Contains("sequence 2 is live already"));
    CHECK_THAT(failure_of([&] { session.fork(1, 1, 0, 0); }), Contains("sequence 1 is live already"));
    CHECK_THAT(failure_of([&] { session.fork(1, 10, 4, 0); }),
               Contains("sequence 1 has 3 outputs: 4 of them cannot be kept"));
    CHECK_THAT(failure_of([&] { session.fork(1, 10, 3, 1024); }), Contains("child is 1024"));
    CHECK(session.live().size() == 2);
    client::Sequence made = SmallEngine::sequence(7, 1000);
    made.params.rng = CROUPIER_RNG_SGLANG;
    session.add(made);
    CHECK_THAT(failure_of([&] { session.fork(7, 10, 0, 1); }), Contains("0 with rng sglang or vllm"));
    session.finish(7);
    for (std::uint64_t uid = 10; session.live().size() < engine_room; ++uid) session.fork(1, uid, 1, 0);
    CHECK_THAT(failure_of([&] { session.fork(1, 100, 1, 0); }), Contains("table_full"));
    engine.steps(3);
}

// croupier_append(): what follows appended tokens is decided as the reference decides it after them.
#include <catch2/catch.hpp>
#include <random>

#include "testing/daemon_process.h"
#include "testing/small_engine.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

EngineShape with_room(bool lean = false) {
    EngineShape shape;
    shape.batch = 16;
    shape.lean = lean;
    return shape;
}

std::vector<std::int32_t> some_tokens(std::mt19937& random, std::uint32_t count) {
    std::uniform_int_distribution<std::int32_t> id(0, 999);
    std::vector<std::int32_t> tokens(count);
    for (std::int32_t& token : tokens) token = id(random);
    return tokens;
}

}  // namespace

TEST_CASE("a sequence goes on after appended tokens as if they had been decided") {
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine", with_room(GENERATE(false, true)));
    for (std::uint64_t uid = 1; uid <= 10; ++uid) engine.admit(SmallEngine::with_state(uid, 1000));
    std::mt19937 random(49);
    for (std::uint32_t round = 0; round < 30; ++round) {
        engine.step();
        for (std::uint64_t uid = 1; uid <= 10; ++uid) {
            const auto outputs = static_cast<std::uint32_t>(engine.streams().at(uid).size());
            const std::uint32_t kind = std::uniform_int_distribution<std::uint32_t>(0, 3)(random);
            // In place of the token that was drawn, of some more, or behind them.
            if (kind == 1) engine.truncate(uid, outputs - 1);
            if (kind == 2) engine.truncate(uid, outputs - std::min(outputs, 5U));
            if (kind > 0) engine.append(uid, some_tokens(random, kind));
        }
    }
    engine.steps(3);
}

TEST_CASE("a fork goes on with another token than its parent's") {
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine", with_room());
    for (std::uint64_t uid = 1; uid <= 5; ++uid) engine.admit(SmallEngine::with_state(uid, 1000));
    engine.steps(10);
    for (std::uint64_t uid = 1; uid <= 5; ++uid) {
        engine.fork(uid, 100 + uid, 9, 0);
        engine.append(100 + uid, {static_cast<std::int32_t>(uid)});
    }
    engine.steps(10);
}

TEST_CASE("a client that resumes the session finds appended tokens") {
    const DaemonProcess daemon;
    EngineShape shape = with_room();
    auto engine = std::make_unique<SmallEngine>(daemon.endpoint(), "engine", shape);
    engine->admit(2);
    engine->steps(2);
    engine->append(1, {4, 5, 6});
    const auto output = engine->session().output(1);
    engine.reset();
    shape.resume = true;
    SmallEngine next(daemon.endpoint(), "engine", shape);
    CHECK(next.session().output(1) == output);
    CHECK(output.size() == 5);
    next.steps(2);
}

TEST_CASE("samplers that start anew find appended tokens") {
    DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine", with_room());
    for (std::uint64_t uid = 1; uid <= 5; ++uid) engine.admit(SmallEngine::with_state(uid, 1000));
    engine.steps(10);
    for (std::uint64_t uid = 1; uid <= 5; ++uid) {
        engine.truncate(uid, 8);
        engine.append(uid, {5, 6, static_cast<std::int32_t>(uid)});
    }
    daemon.restart_after_kill();
    engine.steps(5);
}

TEST_CASE("what cannot be appended is told, and nothing has changed") {
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine", with_room());
    client::Sequence long_one = SmallEngine::sequence(7, 1000);
    long_one.prompt.assign(with_room().max_length - 4, 5);
    engine.admit(long_one);
    engine.steps(1);
    client::Session& session = engine.session();
    const auto failure = [&](std::uint64_t uid, const std::vector<std::int32_t>& tokens) {
        return failure_of([&] { session.append(uid, tokens); });
    };
    CHECK_THAT(failure(9, {1}), Contains("unknown_sequence: sequence 9"));
    CHECK_THAT(failure(7, {1, 1000}), Contains("tokens[1] is 1000; allowed: 0 to 999"));
    CHECK_THAT(failure(7, {-1}), Contains("tokens[0] is -1"));
    CHECK_THAT(failure(7, {1, 2, 3}), Contains("would have 256 tokens with 3 appended, and no room"));
    const std::uint64_t step = engine.submit();
    CHECK_THAT(failure(7, {1}), Contains("stands in 1 steps in flight"));
    engine.write(step);
    engine.collect();
    CHECK(session.output(7) == engine.streams().at(7));
}

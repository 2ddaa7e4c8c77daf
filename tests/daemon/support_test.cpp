// What a token was drawn from, through the ring and over ZMQ, as the reference has it.
#include <catch2/catch.hpp>

#include "testing/daemon_process.h"
#include "testing/small_engine.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

constexpr std::uint32_t kColumns = 32;
constexpr std::uint32_t kRoom = 48;

EngineShape shape_with_room() {
    EngineShape shape;
    shape.batch = kColumns;
    shape.max_sequences = kColumns;
    shape.max_support = kRoom;
    return shape;
}

// Each asks for another number, some for none; some by a rank of log-probs too, and by every way of drawing.
void admit_asking(SmallEngine& engine) {
    for (std::uint64_t uid = 1; uid <= kColumns; ++uid) {
        client::Sequence sequence = SmallEngine::sequence(uid, 1000);
        sequence.params.support = static_cast<std::uint32_t>(uid * 11 % (kRoom + 1));
        if (uid % 5 == 0) sequence.params.typical_p = 0.5;
        if (uid % 7 == 0) sequence.params.min_p = 0.05;
        if (uid % 11 == 0) sequence.params.mirostat = 2;
        if (uid % 13 == 0) sequence.params.dynatemp_range = 0.4;
        if (uid % 11 == 1) sequence.params.adaptive_target = 0.3;
        if (uid % 6 == 1) sequence.params.rng = CROUPIER_RNG_SGLANG;
        if (uid % 6 == 2) sequence.params.rng = CROUPIER_RNG_VLLM;
        if (uid % 6 == 3) sequence.params.rng = CROUPIER_RNG_SHVS;
        if (uid % 4 == 1) sequence.params.logprob_mode = CROUPIER_LOGPROB_PROCESSED;
        engine.admit(sequence);
    }
}

}  // namespace

TEST_CASE("the support, its probabilities and its size are the reference's over thousands of decisions") {
    EngineShape shape = shape_with_room();
    shape.decisions_over_zmq = GENERATE(false, true);
    shape.max_logprobs = GENERATE(0U, 4U);
    shape.masked = shape.max_logprobs > 0;
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    admit_asking(engine);
    // Every decision is checked against the reference, with all that lies beside it.
    engine.steps(40);
    int cut = 0;
    int whole = 0;
    for (const auto& [uid, decisions] : engine.decisions()) {
        for (const auto& decision : decisions) {
            if (decision.support_count > 0) ++((decision.flags & CROUPIER_SUPPORT_CUT) != 0 ? cut : whole);
        }
    }
    CHECK(cut > 100);
    CHECK(whole > 100);
}

TEST_CASE("more support than the session has room for is refused, and a daemon's death changes none") {
    DaemonProcess daemon;
    EngineShape shape = shape_with_room();
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    client::Sequence sequence = SmallEngine::sequence(99, 1000);
    sequence.params.support = kRoom + 1;
    CHECK_THAT(
        failure_of([&] { engine.session().add(sequence); }),
        Contains("49 tokens of its support, the session was opened for 48") && Contains("max_support"));
    admit_asking(engine);
    for (int round = 0; round < 3; ++round) {
        engine.submit();
        engine.write();
        daemon.restart_after_kill();
        engine.collect();
    }
    shape.max_support = 65537;
    CHECK_THAT(failure_of([&] { SmallEngine(daemon.endpoint(), "other", shape); }),
               Contains("max_support is 65537, allowed is 0 to 65536"));
}

TEST_CASE("a column that has no token has no support, not that of the step before in its slot") {
    const DaemonProcess daemon;
    EngineShape shape = shape_with_room();
    shape.steps_in_flight = 1;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    admit_asking(engine);
    engine.steps(2);
    const std::uint64_t step = engine.submit();
    engine.session().give_up(step);
    const auto given_up = engine.session().wait(20000);
    REQUIRE(given_up);
    for (const auto& decision : given_up->decisions) {
        CHECK(decision.error == CROUPIER_DECISION_GIVEN_UP);
        CHECK(decision.support_count == 0);
        CHECK(decision.support_total == 0);
        CHECK((decision.flags & CROUPIER_SUPPORT_CUT) == 0);
    }
}

TEST_CASE("a session whose steps would be too large for messages is refused over ZMQ, not in the ring") {
    const DaemonProcess daemon(kTwoSamplers, "sessions: {max_support: 65536}");
    EngineShape shape = shape_with_room();
    shape.max_support = 65536;
    shape.batch = 65;
    shape.max_sequences = 65;
    shape.steps_in_flight = 1;
    shape.decisions_over_zmq = true;
    CHECK_THAT(failure_of([&] { SmallEngine(daemon.endpoint(), "sent", shape); }),
               Contains("68157440 bytes, over ZMQ they may be 67108864") && Contains("max_support"));
    shape.decisions_over_zmq = false;
    SmallEngine engine(daemon.endpoint(), "kept", shape);
    client::Sequence sequence = SmallEngine::sequence(3, 1000);
    sequence.params.support = 65536;
    engine.admit(sequence);
    engine.steps(3);
}

TEST_CASE("a request without support in a session with room for it has none") {
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine", shape_with_room());
    engine.admit(kColumns);
    engine.steps(3);
    for (const auto& [uid, decisions] : engine.decisions()) {
        for (const auto& decision : decisions) CHECK(decision.support_total == 0);
    }
}

// The best log-probs and the drawn token's rank, through the ring and over ZMQ, as the reference has them.
#include <catch2/catch.hpp>

#include "testing/daemon_process.h"
#include "testing/small_engine.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

constexpr std::uint32_t kColumns = 32;

EngineShape shape_with(std::uint32_t max_logprobs) {
    EngineShape shape;
    shape.batch = kColumns;
    shape.max_sequences = kColumns;
    shape.max_logprobs = max_logprobs;
    return shape;
}

// Each asks for another number, some of the processed ones, some for none.
void admit_asking(SmallEngine& engine, std::uint32_t most) {
    for (std::uint64_t uid = 1; uid <= kColumns; ++uid) {
        client::Sequence sequence = SmallEngine::sequence(uid, 1000);
        sequence.params.logprobs = static_cast<std::uint32_t>(uid * 7 % (most + 1));
        sequence.params.logprob_mode = uid % 3 == 0 ? CROUPIER_LOGPROB_PROCESSED : CROUPIER_LOGPROB_RAW;
        engine.admit(sequence);
    }
}

}  // namespace

TEST_CASE("the best log-probs, their ranks and the drawn token's are the reference's over 10,000 decisions") {
    EngineShape shape = shape_with(GENERATE(64U, 5U));
    shape.decisions_over_zmq = GENERATE(false, true);
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    admit_asking(engine, shape.max_logprobs);
    // Every decision is checked against the reference, with all that lies beside it.
    engine.steps(80);
    CHECK(engine.decisions().size() == kColumns);
}

TEST_CASE("more log-probs than the session has room for are refused, and a daemon's death changes none") {
    DaemonProcess daemon;
    EngineShape shape = shape_with(8);
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    client::Sequence sequence = SmallEngine::sequence(99, 1000);
    sequence.params.logprobs = 9;
    CHECK_THAT(failure_of([&] { engine.session().add(sequence); }),
               Contains("9 best log-probs, the session was opened for 8") && Contains("max_logprobs"));
    admit_asking(engine, 8);
    for (int round = 0; round < 3; ++round) {
        engine.submit();
        engine.write();
        daemon.restart_after_kill();
        engine.collect();
    }
    shape.max_logprobs = 65;
    CHECK_THAT(failure_of([&] { SmallEngine(daemon.endpoint(), "other", shape); }),
               Contains("max_logprobs is 65, allowed is 0 to 64"));
}

TEST_CASE("a column that has no token has no log-probs, not those of the step before in its slot") {
    const DaemonProcess daemon;
    EngineShape shape = shape_with(8);
    shape.steps_in_flight = 1;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    admit_asking(engine, 8);
    engine.steps(2);
    const std::uint64_t step = engine.submit();
    engine.session().give_up(step);
    const auto given_up = engine.session().wait(20000);
    REQUIRE(given_up);
    for (const auto& decision : given_up->decisions) {
        CHECK(decision.error == CROUPIER_DECISION_GIVEN_UP);
        CHECK(decision.best_count == 0);
        CHECK(decision.rank == 0);
    }
}

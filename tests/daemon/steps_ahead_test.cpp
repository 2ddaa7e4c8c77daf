// A sequence in several steps in flight: its columns are decided one after another, and are void once it has
// ended or its client has cut it back.
#include <poll.h>

#include <catch2/catch.hpp>

#include "testing/daemon_process.h"
#include "testing/small_engine.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;
using proto::SessionCounter;

namespace {

constexpr std::uint32_t kAhead = 4;

EngineShape ahead(bool zmq = false) {
    EngineShape shape;
    shape.steps_in_flight = kAhead;
    shape.decisions_over_zmq = zmq;
    return shape;
}

// Whose supervisor has more patience than these tests.
constexpr const char* kPatientSamplers = "{count: 2, wait: adaptive, heartbeat_timeout_ms: 60000}";

std::vector<std::uint64_t> submit_all(SmallEngine& engine) {
    std::vector<std::uint64_t> steps;
    for (std::uint32_t i = 0; i < kAhead; ++i) steps.push_back(engine.submit());
    return steps;
}

void collect_all(SmallEngine& engine, std::size_t columns) {
    for (std::uint32_t i = 0; i < kAhead; ++i) engine.collect_columns(columns);
}

std::uint64_t counter_of(const SmallEngine& engine, SessionCounter which) {
    const auto segment = shm::Segment::attach(engine.segment_path(), shm::Access::read_only);
    return segment.value().header().counter(which).load();
}

}  // namespace

TEST_CASE("steps of the same sequences are decided in their order, whichever logits come first") {
    const bool zmq = GENERATE(false, true);
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine", ahead(zmq));
    engine.admit(8);
    for (int round = 0; round < 6; ++round) {
        const auto steps = submit_all(engine);
        for (std::size_t i = steps.size(); i-- > 0;)
            engine.write(steps[round % 2 == 0 ? i : steps.size() - 1 - i]);
        collect_all(engine, 8);
    }
    CHECK(counter_of(engine, SessionCounter::columns_void) == 0);
}

TEST_CASE("grammar masks, summaries and supplied randoms are those of the step that is decided") {
    const DaemonProcess daemon;
    EngineShape shape = ahead();
    shape.masked = true;
    shape.summaries = true;
    shape.randoms_supplied = true;
    shape.rng = CROUPIER_RNG_SHVS;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    engine.admit(6);
    for (int round = 0; round < 4; ++round) {
        const auto steps = submit_all(engine);
        for (std::size_t i = steps.size(); i-- > 0;) engine.write(steps[i]);
        collect_all(engine, 6);
    }
}

TEST_CASE("after a stop, what is in flight is void and waits for no logits") {
    const bool zmq = GENERATE(false, true);
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine", ahead(zmq));
    client::Sequence short_one = SmallEngine::sequence(1, 1000);
    short_one.params.max_tokens = 2;
    engine.admit(short_one);
    const auto steps = submit_all(engine);
    engine.write(steps[0]);
    engine.write(steps[1]);
    engine.collect();
    engine.collect();
    engine.expect_void(1);
    engine.collect();
    engine.collect();
    // Samplers count a column after its decision is there.
    CHECK(eventually([&] { return counter_of(engine, SessionCounter::columns_void) == 2; }));
    CHECK(engine.session().output(1).size() == 2);
    SECTION("its neighbours in those steps want theirs") {
        engine.admit(SmallEngine::sequence(2, 1000));
        engine.finish(1);
        engine.steps(3);
    }
    SECTION("submitted after that, it goes on") {
        engine.step();
        CHECK(engine.session().output(1).size() == 3);
    }
}

TEST_CASE("a step that is given up makes void what follows, and its positions are asked for again") {
    const bool zmq = GENERATE(false, true);
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine", ahead(zmq));
    engine.admit(5);
    const auto steps = submit_all(engine);
    engine.write(steps[0]);
    engine.collect();
    engine.session().give_up(steps[1]);
    const auto given_up = engine.session().wait(20000);
    REQUIRE(given_up);
    for (const auto& decision : given_up->decisions) CHECK(decision.error == CROUPIER_DECISION_GIVEN_UP);
    for (std::uint64_t uid = 1; uid <= 5; ++uid) engine.expect_void(uid);
    engine.collect();
    engine.collect();
    engine.steps(3);
}

TEST_CASE("a step that is given up before its turn does not affect the steps before it") {
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine", ahead());
    engine.admit(5);
    const auto steps = submit_all(engine);
    engine.session().give_up(steps[2]);
    engine.write(steps[1]);
    engine.write(steps[0]);
    engine.collect();
    engine.collect();
    const auto given_up = engine.session().wait(20000);
    REQUIRE(given_up);
    for (const auto& decision : given_up->decisions) CHECK(decision.error == CROUPIER_DECISION_GIVEN_UP);
    for (std::uint64_t uid = 1; uid <= 5; ++uid) engine.expect_void(uid);
    engine.collect();
    engine.steps(3);
}

TEST_CASE("a truncated sequence continues as if the removed tokens had never been decided") {
    const bool zmq = GENERATE(false, true);
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine", ahead(zmq));
    for (std::uint64_t uid = 1; uid <= 8; ++uid) engine.admit(SmallEngine::with_state(uid, 1000));
    engine.steps(60);
    for (const std::uint32_t back : {48U, 3U, 1U, 0U}) {
        for (std::uint64_t uid = 1; uid <= 8; uid += 2) {
            engine.truncate(uid, static_cast<std::uint32_t>(engine.streams().at(uid).size()) - back);
        }
        engine.steps(5);
    }
}

TEST_CASE("cut back twice while steps are in flight, a sequence goes on alike, decided or not as they were") {
    const bool decided = GENERATE(false, true);
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine", ahead());
    for (std::uint64_t uid = 1; uid <= 8; ++uid) engine.admit(SmallEngine::with_state(uid, 1000));
    engine.steps(150);
    const auto steps = submit_all(engine);
    if (decided) {
        for (const std::uint64_t step : steps) engine.write(step);
        REQUIRE(eventually([&] { return engine.counted(std::uint64_t{150 + kAhead} * 8); }));
    }
    for (std::uint64_t uid = 1; uid <= 8; ++uid) engine.truncate(uid, 90);
    for (std::uint64_t uid = 1; uid <= 8; ++uid) engine.truncate(uid, uid % 2 == 0 ? 30 : 86);
    for (std::uint32_t i = 0; i < kAhead; ++i) engine.collect();
    engine.steps(5);
}

TEST_CASE("a truncate makes void what is in flight, and the next step stands behind it") {
    const bool zmq = GENERATE(false, true);
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine", ahead(zmq));
    for (std::uint64_t uid = 1; uid <= 8; ++uid) engine.admit(SmallEngine::with_state(uid, 1000));
    engine.steps(20);
    for (int round = 0; round < 5; ++round) {
        const std::uint64_t first = engine.submit();
        const std::uint64_t second = engine.submit();
        engine.write(second);
        engine.truncate(3, 9);
        engine.truncate(4, static_cast<std::uint32_t>(engine.streams().at(4).size()));
        const std::uint64_t third = engine.submit();
        engine.write(third);
        engine.write(first);
        for (int i = 0; i < 3; ++i) engine.collect();
    }
    CHECK(eventually([&] { return counter_of(engine, SessionCounter::columns_void) > 0; }));
}

TEST_CASE("void columns alone complete a step without logits") {
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine", ahead());
    engine.admit(3);
    engine.steps(2);
    (void)submit_all(engine);
    for (std::uint64_t uid = 1; uid <= 3; ++uid) engine.truncate(uid, 1);
    collect_all(engine, 3);
    engine.steps(2);
}

TEST_CASE("a column that became void before any sampler saw its step is still answered") {
    DaemonProcess daemon(kPatientSamplers);
    SmallEngine engine(daemon.endpoint(), "engine", ahead());
    engine.admit(3);
    engine.steps(2);
    const bool killed = GENERATE(false, true);
    if (killed) {
        daemon.kill_now();
    } else {
        for (std::uint32_t index = 0; index < 2; ++index) ::kill(daemon.sampler_pid(index), SIGSTOP);
    }
    engine.submit();
    engine.truncate(1, 1);
    engine.truncate(2, 0);
    engine.session().finish(3);
    engine.expect_void(3);
    if (killed) {
        daemon.start();
    } else {
        for (std::uint32_t index = 0; index < 2; ++index) ::kill(daemon.sampler_pid(index), SIGCONT);
    }
    engine.collect();
}

TEST_CASE("a stopped sampler does not keep others from its columns in steps ahead") {
    DaemonProcess daemon(kPatientSamplers);
    SmallEngine engine(daemon.endpoint(), "engine", ahead());
    client::Sequence made = SmallEngine::sequence(2, 1000);
    engine.admit(made);
    // In turn: one of them is the one that would have the column.
    for (std::uint32_t index = 0; index < 2; ++index) {
        const pid_t stopped = daemon.sampler_pid(index);
        ::kill(stopped, SIGSTOP);
        REQUIRE(eventually([&] { return is_stopped(stopped); }));
        for (int round = 0; round < 3; ++round) {
            const auto steps = submit_all(engine);
            for (std::size_t i = steps.size(); i-- > 0;) engine.write(steps[i]);
            collect_all(engine, 1);
        }
        ::kill(stopped, SIGCONT);
    }
}

TEST_CASE(
    "feedback after a truncate does not depend on what was decided ahead, and cut back further it begins "
    "anew") {
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine", ahead());
    for (std::uint64_t uid = 1; uid <= 4; ++uid) {
        client::Sequence made = SmallEngine::sequence(uid, 1000);
        made.params.temperature = 0.9;
        if (uid < 3) {
            made.params.mirostat = static_cast<std::uint8_t>(uid);
        } else {
            made.params.adaptive_target = 0.3;
        }
        engine.admit(made);
    }
    engine.steps(100);
    const auto steps = submit_all(engine);
    const auto decided = static_cast<std::size_t>(GENERATE(0, 3));
    for (std::size_t i = 0; i < decided; ++i) {
        engine.write(steps[i]);
        REQUIRE(engine.counted(400 + 4 * (i + 1)));
    }
    const std::uint32_t back = GENERATE(61U, 63U, 64U, 80U);
    for (std::uint64_t uid = 1; uid <= 4; ++uid) engine.truncate(uid, 100 - back);
    collect_all(engine, 4);
    engine.steps(static_cast<int>(back) + 10);
}

TEST_CASE("a sequence is finished while it is in flight, and its uid lives again at once") {
    const bool zmq = GENERATE(false, true);
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine", ahead(zmq));
    engine.admit(4);
    engine.steps(2);
    const auto steps = submit_all(engine);
    const std::vector<std::int32_t> output = engine.session().output(2);
    engine.finish(2);
    CHECK_THAT(failure_of([&] { engine.session().finish(2); }), Contains("unknown_sequence"));
    engine.expect_void(2);
    client::Sequence back = SmallEngine::sequence(2, 1000);
    back.output = output;
    engine.admit(back);
    for (const std::uint64_t step : steps) engine.write(step);
    collect_all(engine, 4);
    engine.steps(3);
    CHECK(engine.session().output(2).size() == output.size() + 3);
}

TEST_CASE("samplers that die while sequences are in several steps lose and change nothing") {
    DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine", ahead());
    for (std::uint64_t uid = 1; uid <= 8; ++uid) engine.admit(SmallEngine::with_state(uid, 1000));
    for (int round = 0; round < 12; ++round) {
        const auto steps = submit_all(engine);
        for (std::size_t i = steps.size(); i-- > 0;) engine.write(steps[i]);
        ::kill(daemon.sampler_pid(static_cast<std::uint32_t>(round % 2)), SIGKILL);
        collect_all(engine, 8);
        REQUIRE(
            eventually([&] { return daemon.sampler_restarts() == static_cast<std::uint32_t>(round) + 1; }));
        REQUIRE(daemon.await_ready());
    }
}

TEST_CASE("a client that resumes finds what is void of the steps in flight") {
    const DaemonProcess daemon;
    EngineShape shape = ahead();
    shape.resume = true;
    std::vector<std::int32_t> output;
    {
        SmallEngine engine(daemon.endpoint(), "engine", shape);
        engine.admit(3);
        engine.steps(4);
        const auto steps = submit_all(engine);
        for (const std::uint64_t step : steps) engine.write(step);
        engine.truncate(1, 2);
        engine.finish(2);
        output = engine.session().output(3);
    }
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    REQUIRE(engine.session().resumed());
    CHECK(engine.session().in_flight() == kAhead);
    CHECK(engine.session().live().size() == 2);
    for (std::uint32_t i = 0; i < kAhead; ++i) {
        const auto step = engine.session().wait(20000);
        REQUIRE(step);
        for (const auto& decision : step->decisions) {
            INFO("step " << step->step << ", sequence " << decision.uid);
            CHECK(decision.error == (decision.uid == 3 ? 0 : CROUPIER_DECISION_VOID));
        }
    }
    CHECK(engine.session().output(1).size() == 2);
    CHECK(engine.session().output(3).size() == output.size() + kAhead);
}

TEST_CASE("a scheduler that polls the session's descriptor misses no step") {
    const bool zmq = GENERATE(false, true);
    DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine", ahead(zmq));
    engine.admit(4);
    pollfd item{engine.session().event_fd(), POLLIN, 0};
    CHECK(engine.session().event_fd() == item.fd);
    const auto wake = [&] { return ::poll(&item, 1, 20000) == 1; };
    const auto collect_when_woken = [&](std::size_t steps) {
        for (std::size_t taken = 0; taken < steps;) {
            REQUIRE(wake());
            while (engine.session().in_flight() > 0 && engine.collect_one()) ++taken;
        }
    };
    for (int round = 0; round < 10; ++round) {
        const auto steps = submit_all(engine);
        // None is decided before its logits are there.
        while (engine.collect_one()) FAIL("step " << steps.front() << " has no logits");
        for (const std::uint64_t step : steps) engine.write(step);
        collect_when_woken(steps.size());
        if (round == 4) {
            daemon.restart_after_kill();
            REQUIRE(eventually([&] { return failure_of([&] { engine.step(); }).empty(); }));
        }
    }
}

TEST_CASE("a truncate that is not possible is refused by name") {
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine", ahead());
    engine.admit(2);
    engine.steps(3);
    CHECK_THAT(failure_of([&] { engine.session().truncate(1, 4); }),
               Contains("sequence 1 has 3 outputs: 4 of them cannot be kept"));
    CHECK_THAT(failure_of([&] { engine.session().truncate(9, 0); }), Contains("sequence 9 is not live"));
    engine.steps(2);
}

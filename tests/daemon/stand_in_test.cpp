// A stand-in decides while there is no daemon, and gives the session back when there is one: no token
// changes.
#include <poll.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "shm/segment.h"
#include "shm/step_claims.h"
#include "testing/child_process.h"
#include "testing/daemon_process.h"
#include "testing/small_engine.h"
#include "tests/daemon/poison.h"
#include "tests/daemon/stand_in_process.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;
using proto::SessionCounter;

namespace {

shm::Segment attach(const SmallEngine& engine) {
    return shm::Segment::attach(engine.segment_path(), shm::Access::read_write).value();
}

ChildProcess stand_in(const Sandbox& place, const SmallEngine& engine,
                      const std::string& program = CROUPIERD_PATH,
                      const std::string& heartbeat_timeout_ms = "10000") {
    return start_stand_in(engine.segment_path(), place.directory() + "/stand-in.log", program,
                          {"--heartbeat-timeout-ms", heartbeat_timeout_ms});
}

std::uint64_t stand_ins(const shm::Segment& segment) {
    return segment.header().counter(SessionCounter::stand_ins).load();
}

bool answers_for(pid_t process, const shm::Segment& segment) {
    return segment.is_held(shm::Role::daemon) && segment.header().daemon_pid.load() == process;
}

// An engine with its sequences, and what is to be seen of its session.
struct Decoding {
    explicit Decoding(const EngineShape& shape = {}) : engine(daemon.endpoint(), "engine", shape) {
        engine.admit(8);
    }

    DaemonProcess daemon;
    SmallEngine engine;
    shm::Segment segment = attach(engine);
};

EngineShape shape_of_a_way() {
    EngineShape made;
    made.decisions_over_zmq = GENERATE(false, true);
    return made;
}

// Decisions come by the ring, then over ZMQ.
struct DecodingEachWay : Decoding {
    DecodingEachWay() : Decoding(shape_of_a_way()) {}
};

Streams undisturbed(int steps) {
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "undisturbed");
    engine.admit(8);
    engine.steps(steps);
    return engine.streams();
}

}  // namespace

TEST_CASE_METHOD(DecodingEachWay,
                 "a stand-in decides the same tokens while a daemon stays dead for many steps, repeatedly") {
    const ChildProcess beside = stand_in(daemon, engine);
    engine.step();
    for (int round = 0; round < 5; ++round) {
        INFO("round " << round);
        engine.submit();
        if (round % 2 == 0) engine.write();
        daemon.kill_now();
        if (round % 2 == 1) engine.write();
        engine.collect();
        engine.steps(6);
        CHECK(answers_for(beside.pid(), segment));
        CHECK(stand_ins(segment) == static_cast<std::uint64_t>(round) + 1);
        engine.submit();
        daemon.start();
        engine.write();
        engine.collect();
        REQUIRE(eventually([&] { return answers_for(daemon.pid(), segment); }));
        engine.steps(2);
    }
    CHECK(engine.streams() == undisturbed(51));
    CHECK(segment.header().counter(SessionCounter::columns_failed).load() == 0);
    CHECK(daemon.says("requested it back"));
}

TEST_CASE_METHOD(DecodingEachWay, "a stand-in that is killed while it decides is followed by another one") {
    ChildProcess beside = stand_in(daemon, engine);
    engine.step();
    daemon.kill_now();
    engine.steps(2);
    for (int round = 0; round < 4; ++round) {
        engine.submit();
        if (round % 2 == 0) engine.write();
        beside.kill_and_reap();
        beside = stand_in(daemon, engine);
        if (round % 2 == 1) engine.write();
        engine.collect();
        engine.step();
    }
    CHECK(stand_ins(segment) == 5);
    beside.kill_and_reap();
    engine.submit();
    engine.write();
    daemon.start();
    engine.collect();
    engine.step();
    CHECK(engine.streams() == undisturbed(13));
}

TEST_CASE_METHOD(DecodingEachWay, "a scheduler that polls its descriptor misses no step of a stand-in") {
    pollfd readable{engine.session().event_fd(), POLLIN, 0};
    const ChildProcess beside = stand_in(daemon, engine);
    daemon.kill_now();
    REQUIRE(eventually([&] { return answers_for(beside.pid(), segment); }));
    for (int i = 0; i < 5; ++i) {
        engine.submit();
        while (engine.session().in_flight() > 0 && engine.collect_one()) FAIL("the step has no logits");
        engine.write();
        while (engine.session().in_flight() > 0) {
            REQUIRE(::poll(&readable, 1, 20000) == 1);
            engine.collect_one();
        }
    }
    CHECK(engine.streams() == undisturbed(5));
}

TEST_CASE("two engines have a stand-in each, and the daemon takes both sessions back") {
    const EngineShape shape = shape_of_a_way();
    DaemonProcess daemon;
    SmallEngine one(daemon.endpoint(), "one", shape);
    SmallEngine other(daemon.endpoint(), "other", shape);
    const ChildProcess beside_one = stand_in(daemon, one);
    const ChildProcess beside_other = stand_in(daemon, other);
    for (SmallEngine* engine : {&one, &other}) engine->admit(8);
    daemon.kill_now();
    for (int i = 0; i < 4; ++i) {
        one.step();
        other.step();
    }
    daemon.start();
    const shm::Segment first = attach(one);
    const shm::Segment second = attach(other);
    REQUIRE(
        eventually([&] { return answers_for(daemon.pid(), first) && answers_for(daemon.pid(), second); }));
    one.step();
    other.step();
    CHECK(one.streams() == undisturbed(5));
    CHECK(other.streams() == undisturbed(5));
}

TEST_CASE_METHOD(Decoding, "a stand-in waits until the dead daemon's samplers have ended") {
    engine.step();
    shm::Segment sampler = attach(engine);
    REQUIRE(sampler.share(shm::Role::samplers));
    const ChildProcess beside = stand_in(daemon, engine);
    engine.submit();
    daemon.kill_now();
    REQUIRE(eventually([&] { return segment.is_held(shm::Role::daemon); }));
    engine.write();
    CHECK(stand_ins(segment) == 0);
    CHECK_FALSE(engine.collect_one());
    sampler.release(shm::Role::samplers);
    engine.collect();
    CHECK(stand_ins(segment) == 1);
}

TEST_CASE_METHOD(Decoding,
                 "a daemon that asked for the session and died is waited for no longer than a second") {
    const ChildProcess beside = stand_in(daemon, engine);
    daemon.kill_now();
    engine.step();
    segment.header().wanted = 1;
    REQUIRE(eventually([&] { return !segment.is_held(shm::Role::daemon); }));
    engine.steps(2);
    CHECK(stand_ins(segment) == 2);
    CHECK(engine.streams() == undisturbed(3));
}

TEST_CASE("a column that ends or stalls a stand-in's samplers is answered, and its neighbours are decided") {
    const std::uint64_t seed = GENERATE(kHangs, kKillsItself, kBadAlloc, kAbortsInPreparation);
    INFO("poison " << seed - kPoisonFirst);
    DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine");
    const ChildProcess beside = stand_in(daemon, engine, POISONED_PATH, seed == kHangs ? "1000" : "10000");
    daemon.kill_now();
    for (std::uint64_t uid = 1; uid <= 8; ++uid) {
        client::Sequence sequence = SmallEngine::sequence(uid, EngineShape().vocab);
        if (uid == 3) sequence.params.seed = seed;
        engine.admit(sequence);
    }
    // Who dies of it before its logits are there decides it when they are.
    if (seed != kAbortsInPreparation) engine.expect_error(3, proto::DecisionError::sampler_crashed);
    const std::uint64_t step = engine.submit();
    const shm::Segment segment = attach(engine);
    if (seed == kAbortsInPreparation) {
        REQUIRE(eventually([&] { return shm::StepClaims(segment, step).has_suspect(8); }));
    }
    engine.write();
    engine.collect();
    engine.finish(3);
    engine.steps(2);
}

TEST_CASE("a stand-in ends with its session, with its client and when it is told to") {
    DaemonProcess daemon;
    auto engine = std::make_unique<SmallEngine>(daemon.endpoint(), "engine");
    engine->admit(8);
    ChildProcess one = stand_in(daemon, *engine);
    ChildProcess other = stand_in(daemon, *engine);
    const shm::Segment segment = attach(*engine);
    daemon.kill_now();
    engine->steps(2);
    const bool first = answers_for(one.pid(), segment);
    ChildProcess& told = first ? one : other;
    ChildProcess& idle = first ? other : one;
    told.send(SIGTERM);
    CHECK(told.wait() == 0);
    engine->steps(2);
    CHECK(answers_for(idle.pid(), segment));
    CHECK(engine->streams() == undisturbed(4));
    engine.reset();
    CHECK(idle.wait() == 0);
}

TEST_CASE_METHOD(Decoding, "a daemon waits for the samplers of a stand-in that was killed") {
    engine.step();
    shm::Segment sampler = attach(engine);
    REQUIRE(sampler.share(shm::Role::samplers));
    daemon.restart_after_kill();
    REQUIRE(eventually([&] { return daemon.says("requested it back"); }));
    engine.submit();
    engine.write();
    daemon.await_housekeeping();
    // Nobody answers for it, and so nobody decides.
    CHECK_THAT(failure_of([&] { engine.collect_one(); }), Contains("daemon_gone"));
    CHECK_FALSE(segment.is_held(shm::Role::daemon));
    sampler.release(shm::Role::samplers);
    engine.collect();
    CHECK(engine.streams() == undisturbed(2));
}

TEST_CASE_METHOD(Decoding, "a stand-in that waits for samplers lets a daemon have the lock") {
    shm::Segment sampler = attach(engine);
    REQUIRE(sampler.share(shm::Role::samplers));
    const ChildProcess beside = stand_in(daemon, engine);
    daemon.kill_now();
    REQUIRE(eventually([&] { return segment.is_held(shm::Role::daemon); }));
    // It asks until the samplers are gone, and takes the lock then.
    daemon.start();
    REQUIRE(eventually([&] { return daemon.says("requested it back"); }));
    REQUIRE(eventually([&] { return !segment.is_held(shm::Role::daemon); }));
    sampler.release(shm::Role::samplers);
    engine.step();
    CHECK(answers_for(daemon.pid(), segment));
    CHECK(stand_ins(segment) == 0);
}

TEST_CASE_METHOD(Decoding, "two stand-ins of one session both give way to a daemon") {
    const ChildProcess one = stand_in(daemon, engine);
    const ChildProcess other = stand_in(daemon, engine);
    for (int round = 0; round < 4; ++round) {
        daemon.kill_now();
        engine.steps(2);
        CHECK(stand_ins(segment) == static_cast<std::uint64_t>(round) + 1);
        daemon.start();
        REQUIRE(eventually([&] { return answers_for(daemon.pid(), segment); }));
        engine.step();
    }
    CHECK(stand_ins(segment) == 4);
    CHECK(engine.streams() == undisturbed(12));
}

TEST_CASE_METHOD(Decoding,
                 "a session that is being taken back cannot be opened by another client, and a daemon that "
                 "ends leaves it") {
    engine.step();
    daemon.kill_now();
    shm::Segment holder = attach(engine);
    REQUIRE(eventually([&] { return holder.hold(shm::Role::daemon); }));
    daemon.start();
    REQUIRE(daemon.await_ready());
    REQUIRE(eventually([&] { return holder.header().wanted == 1; }));
    for (const bool resume : {false, true}) {
        EngineShape shape;
        shape.resume = resume;
        const std::string failure =
            failure_of([&] { const SmallEngine twin(daemon.endpoint(), "engine", shape); });
        CHECK_THAT(failure, Contains("already_held") && Contains("taken back from a stand-in"));
    }
    CHECK(daemon.terminate() == 0);
    CHECK(holder.header().wanted == 0);
    CHECK(holder.header().state == proto::SessionState::active);
    holder.release(shm::Role::daemon);
    daemon.start();
    engine.step();
    CHECK(engine.streams() == undisturbed(2));
}

TEST_CASE("a stand-in that cannot serve says what is wrong") {
    DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine");
    const Ended nowhere = run_croupierd(daemon, {"--stand-in-fd", "999"});
    CHECK(nowhere.status == 1);
    CHECK_THAT(nowhere.output, Contains("cannot stand in") && Contains("no file is open as descriptor 999") &&
                                   Contains("999<>SEGMENT"));
    const Ended word = run_croupierd(daemon, {"--stand-in-fd", "x"});
    CHECK(word.status != 0);
    CHECK(word.output.size() < 200);
    const std::string number = std::to_string(::open(engine.segment_path().c_str(), O_RDWR));
    const Ended many = run_croupierd(daemon, {"--stand-in-fd", number, "--samplers", "5000"});
    CHECK(many.status != 0);
    CHECK_THAT(many.output, Contains("--samplers"));
    attach(engine).header().version += 1;
    daemon.kill_now();
    const Ended newer = run_croupierd(daemon, {"--stand-in-fd", number});
    CHECK(newer.status == 2);
    CHECK_THAT(newer.output, Contains("cannot stand in") && Contains("version"));
    ::close(std::stoi(number));
}

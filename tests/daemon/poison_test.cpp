// A column that ends or stalls whoever decides it: it is answered, and nobody else pays for it.
#include "tests/daemon/poison.h"

#include <catch2/catch.hpp>
#include <csignal>

#include "shm/step_claims.h"
#include "testing/daemon_process.h"
#include "testing/small_engine.h"

using namespace croupier;
using namespace croupier::testing;

namespace {

constexpr std::uint64_t kPoisoned = 3;
// For what hangs. What ends by itself needs none, within which a slow machine's sound samplers may show no
// life.
constexpr const char* kHeartbeatTimeout = "heartbeat_timeout_ms: 1000";

client::Sequence poisoned(std::uint64_t seed) {
    client::Sequence sequence = SmallEngine::sequence(kPoisoned, EngineShape().vocab);
    sequence.params.seed = seed;
    return sequence;
}

void admit_with_poison(SmallEngine& engine, std::uint64_t seed, std::uint32_t count = 8) {
    for (std::uint64_t uid = 1; uid <= count; ++uid) {
        engine.admit(uid == kPoisoned ? poisoned(seed) : SmallEngine::sequence(uid, EngineShape().vocab));
    }
    engine.expect_error(kPoisoned, proto::DecisionError::sampler_crashed);
}

}  // namespace

TEST_CASE("a column that ends or stalls samplers is answered after three of them") {
    const std::uint64_t seed = GENERATE(kHangs, kKillsItself, kExits, kBadAlloc, kAborts);
    const std::string threads = GENERATE("1", "3");
    INFO("poison " << seed - kPoisonFirst << ", threads " << threads);
    const std::string timeout = seed == kHangs ? std::string(", ") + kHeartbeatTimeout : "";
    const DaemonProcess daemon("{count: 2, threads_per_sampler: " + threads + timeout + "}", "",
                               POISONED_PATH);
    SmallEngine engine(daemon.endpoint(), "engine");
    SmallEngine neighbour(daemon.endpoint(), "neighbour");
    admit_with_poison(engine, seed);
    neighbour.admit(8);
    neighbour.step();
    engine.submit();
    engine.write();
    neighbour.steps(3);
    engine.collect();
    // Who had the column beside another when it ended is suspected only: two more at the most.
    CHECK(daemon.sampler_restarts() >= 3);
    CHECK(daemon.sampler_restarts() <= 5);
    engine.finish(kPoisoned);
    engine.steps(2);
    neighbour.step();
}

TEST_CASE("a daemon with one sampler survives a poisoned column too") {
    const std::uint64_t seed = GENERATE(kHangs, kExits);
    const DaemonProcess daemon(std::string("{count: 1, ") + kHeartbeatTimeout + "}", "", POISONED_PATH);
    SmallEngine engine(daemon.endpoint(), "engine");
    SmallEngine neighbour(daemon.endpoint(), "neighbour");
    admit_with_poison(engine, seed);
    neighbour.admit(8);
    engine.submit();
    engine.write();
    neighbour.steps(2);
    engine.collect();
    engine.finish(kPoisoned);
    engine.steps(2);
}

TEST_CASE("a column that ends samplers while its logits are awaited is answered when they are there") {
    const DaemonProcess daemon(kTwoSamplers, "", POISONED_PATH);
    SmallEngine engine(daemon.endpoint(), "engine");
    admit_with_poison(engine, kAbortsInPreparation);
    const std::uint64_t number = engine.submit();
    const auto segment = shm::Segment::attach(engine.segment_path(), shm::Access::read_only);
    const auto suspected = [&] { return shm::StepClaims(segment.value(), number).has_suspect(8); };
    REQUIRE(eventually([&] { return daemon.sampler_restarts() >= 1 && suspected(); }));
    engine.write();
    const auto step = engine.session().wait(20000);
    REQUIRE(step);
    // Suspected, and so not prepared any more: it is decided, alone.
    for (const auto& decision : step->decisions) CHECK(decision.error == 0);
    CHECK(daemon.sampler_restarts() <= 2);
}

TEST_CASE("a session that no sampler has the memory to attach ends no sampler") {
    const DaemonProcess daemon(kTwoSamplers, "", POISONED_PATH);
    SmallEngine neighbour(daemon.endpoint(), "neighbour");
    neighbour.admit(8);
    neighbour.step();
    SmallEngine unattachable(daemon.endpoint(), kUnattachable);
    unattachable.admit(8);
    unattachable.submit();
    unattachable.write();
    neighbour.steps(3);
    REQUIRE(eventually([&] { return daemon.says("cannot serve session"); }));
    CHECK(daemon.says("out of memory"));
    neighbour.steps(3);
    CHECK(daemon.sampler_restarts() == 0);
}

TEST_CASE("a token that was answered with an error is not in the log, and its position is asked for again") {
    const DaemonProcess daemon(kTwoSamplers, "", POISONED_PATH);
    SmallEngine engine(daemon.endpoint(), "engine");
    admit_with_poison(engine, kAbortsBeforeCommit);
    for (int round = 0; round < 2; ++round) {
        engine.step();
        CHECK(engine.session().output(kPoisoned).empty());
        CHECK(engine.session().output(1).size() == static_cast<std::size_t>(round) + 1);
    }
}

TEST_CASE("a token is visible only after its commit") {
    const DaemonProcess daemon("{count: 1, heartbeat_timeout_ms: 600000}", "", POISONED_PATH);
    SmallEngine engine(daemon.endpoint(), "engine");
    engine.admit(poisoned(kStopsBeforeCommit));
    engine.submit();
    engine.write();
    const pid_t sampler = daemon.sampler_pid(0);
    REQUIRE(eventually([&] { return is_stopped(sampler); }));
    CHECK_FALSE(engine.session().wait(0));
    CHECK(engine.session().output(kPoisoned).empty());
    ::kill(sampler, SIGCONT);
    engine.collect();
    CHECK(engine.session().output(kPoisoned) == engine.streams().at(kPoisoned));
}

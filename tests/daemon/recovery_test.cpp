// Whoever dies, at whatever moment: the streams go on, nothing is lost and nothing is decided twice.
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>

#include "shm/snapshot.h"
#include "shm/step_claims.h"
#include "testing/child_process.h"
#include "testing/daemon_process.h"
#include "testing/shared_object.h"
#include "testing/small_engine.h"
#include "tests/daemon/poison.h"
#include "tests/daemon/served_engine.h"

using namespace croupier;
using namespace croupier::testing;
using proto::SessionCounter;

namespace {

std::uint64_t counter_of(const SmallEngine& engine, SessionCounter which) {
    const auto segment = shm::Segment::attach(engine.segment_path(), shm::Access::read_only);
    return segment.value().header().counter(which).load();
}

Streams undisturbed(int steps, const EngineShape& shape = {}) {
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "undisturbed", shape);
    engine.admit(shape.batch);
    engine.steps(steps);
    return engine.streams();
}

// What a child process of these tests does until it is killed; false when it could not.
template <typename Body>
ChildProcess start_child(Body&& body) {
    return ChildProcess::start([&] {
        try {
            body();
        } catch (const std::exception& failure) {
            std::fprintf(stderr, "child: %s\n", failure.what());
            return 1;
        }
        return 0;
    });
}

// Stops the only sampler again and again while it decides a step. True: it now stands still with a claim that
// it has not committed. False: the step was decided without such a moment, and it runs on.
bool stop_within_a_decision(pid_t sampler, const shm::Segment& segment, std::uint64_t step,
                            std::uint32_t columns) {
    const shm::StepClaims claims(segment, step);
    const auto claimed = [&] {
        std::uint32_t count = 0;
        for (std::uint32_t column = 0; column < columns; ++column) {
            const auto word = proto::ClaimWord::unpack(segment.claims(claims.slot())[column].load());
            if (word.step_tag == static_cast<std::uint32_t>(step) && word.owner != 0) ++count;
        }
        return count;
    };
    const auto committed = [&] {
        std::uint32_t count = 0;
        for (std::uint32_t column = 0; column < columns; ++column) count += claims.is_committed(column);
        return count;
    };
    for (std::uint32_t seen = 0; seen < columns; seen = claimed()) {
        REQUIRE(eventually([&] { return claimed() > seen; }));
        ::kill(sampler, SIGSTOP);
        REQUIRE(eventually([&] { return is_stopped(sampler); }));
        if (claimed() > committed()) return true;
        ::kill(sampler, SIGCONT);
    }
    return false;
}

}  // namespace

TEST_CASE_METHOD(ServedEngine,
                 "samplers that are killed while steps are in flight are replaced, and no token changes") {
    engine.steps(2);
    std::uint32_t kills = 0;
    for (const std::uint32_t victim : {0U, 1U, 0U, 1U}) {
        // The count of a decision comes after it: who dies in between leaves one too few.
        REQUIRE(engine.counted(16 + 8 * std::uint64_t{kills}));
        engine.submit();
        const pid_t pid = daemon.sampler_pid(victim);
        ::kill(pid, SIGKILL);
        ++kills;
        engine.write();
        engine.collect();
        REQUIRE(eventually([&] { return daemon.sampler_restarts() == kills && daemon.await_ready(); }));
        CHECK(daemon.sampler_pid(victim) != pid);
    }
    engine.steps(2);
    CHECK(engine.streams() == undisturbed(8));
    CHECK(engine.counted(64));
    CHECK(counter_of(engine, SessionCounter::columns_failed) == 0);
}

TEST_CASE("columns that a killed sampler had claimed are decided again, once") {
    const DaemonProcess daemon("{count: 1, heartbeat_timeout_ms: 600000}");
    EngineShape shape;
    shape.vocab = 60000;
    shape.batch = 64;
    shape.max_sequences = 64;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    engine.admit(64);
    const auto segment = shm::Segment::attach(engine.segment_path(), shm::Access::read_only);
    const pid_t sampler = daemon.sampler_pid(0);
    std::uint64_t steps = 0;
    for (bool caught = false; !caught; ++steps) {
        INFO("step " << steps);
        REQUIRE(steps < 1000);
        const std::uint64_t step = engine.submit();
        engine.write();
        caught = stop_within_a_decision(sampler, segment.value(), step, 64);
        if (caught) ::kill(sampler, SIGKILL);
        engine.collect();
    }
    REQUIRE(eventually([&] { return daemon.sampler_restarts() == 1 && daemon.await_ready(); }));
    CHECK(counter_of(engine, SessionCounter::columns_redecided) == 1);
    CHECK(engine.counted(steps * 64));
}

TEST_CASE("a sampler may take longer to start than heartbeat_timeout_ms") {
    ::setenv(kSlowStart, "2500", 1);
    const DaemonProcess daemon("{count: 2, heartbeat_timeout_ms: 1000}", "", POISONED_PATH);
    ::unsetenv(kSlowStart);
    SmallEngine engine(daemon.endpoint(), "engine");
    engine.admit(8);
    engine.step();
    CHECK(daemon.sampler_restarts() == 0);
    CHECK_FALSE(daemon.says("sent no heartbeat"));
}

TEST_CASE("a sampler that hangs is killed after heartbeat_timeout_ms and replaced") {
    const DaemonProcess daemon("{count: 2, heartbeat_timeout_ms: 200}");
    SmallEngine engine(daemon.endpoint(), "engine");
    engine.admit(8);
    engine.step();
    const pid_t hung = daemon.sampler_pid(1);
    ::kill(hung, SIGSTOP);
    engine.steps(2);
    REQUIRE(eventually([&] { return daemon.sampler_restarts() >= 1 && daemon.await_ready(); }));
    CHECK(eventually([&] { return daemon.sampler_pid(1) != hung; }));
    CHECK(daemon.says("sent no heartbeat"));
    engine.steps(2);
    CHECK(engine.streams() == undisturbed(5));
}

TEST_CASE_METHOD(
    EngineServedEachWay,
    "a daemon that is killed with steps in flight and started again fails no call and changes no token") {
    engine.step();
    for (int round = 0; round < 5; ++round) {
        INFO("round " << round << ", " << way());
        engine.submit();
        // Before the logits, and after them: the daemon dies waiting, and deciding.
        if (round % 2 == 0) engine.write();
        daemon.kill_now();
        if (round % 2 == 1) engine.write();
        daemon.start();
        engine.collect();
        REQUIRE(daemon.await_ready());
    }
    engine.step();
    CHECK(engine.streams() == undisturbed(7));
    CHECK(counter_of(engine, SessionCounter::steps_taken) == 7);
    CHECK(counter_of(engine, SessionCounter::columns_failed) == 0);
}

TEST_CASE("a writer that is killed is replaced by a new process, and the stream goes on") {
    struct Progress {
        std::atomic<int> attached{0};
    };
    const DaemonProcess daemon;
    EngineShape shape;
    shape.tp = 1;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    engine.admit(8);
    engine.step();
    engine.detach_writers();
    const Shared<Progress> progress;
    auto first = start_child([&] {
        auto writer = gpu_writer::RankWriter::attach(engine.segment_path(), 0);
        const auto step = writer.value().wait_step(std::chrono::seconds(20));
        // Half of a slice, announced as such; then nothing more ever comes of it.
        const std::vector<std::uint16_t> junk(shape.vocab, 0x7FC0);
        writer.value().write_column(*step, 0, junk.data());
        if (!writer.value().publish(*step, 1)) throw std::runtime_error("refused");
        progress->attached = 1;
        ::raise(SIGSTOP);
    });
    engine.submit();
    REQUIRE(eventually([&] { return progress->attached == 1; }));
    first.kill_and_reap();
    REQUIRE(eventually([&] { return counter_of(engine, SessionCounter::writers_lost) == 2; }));
    engine.attach_writers();
    engine.write();
    engine.collect();
    engine.steps(2);
    CHECK(engine.streams() == undisturbed(4));
    CHECK(counter_of(engine, SessionCounter::columns_failed) == 0);
}

TEST_CASE("a new client resumes the sequences, outputs and steps in flight of one that was killed") {
    const bool zmq = GENERATE(false, true);
    const DaemonProcess daemon;
    EngineShape shape;
    shape.decisions_over_zmq = zmq;
    const Shared<std::atomic<int>> submitted;
    auto child = start_child([&] {
        SmallEngine engine(daemon.endpoint(), "engine", shape);
        engine.admit(8);
        for (int i = 0; i < 3; ++i) {
            engine.submit();
            engine.write();
            if (!engine.session().wait(20000)) throw std::runtime_error("no step");
        }
        engine.submit();
        *submitted = 1;
        ::raise(SIGSTOP);
    });
    REQUIRE(eventually([&] { return *submitted == 1; }));
    child.kill_and_reap();
    shape.resume = true;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    CHECK(engine.session().resumed());
    REQUIRE(engine.streams().size() == 8);
    for (const auto& [uid, stream] : engine.streams()) CHECK(stream.size() == 3);
    REQUIRE(engine.session().in_flight() == 1);
    engine.write();
    engine.collect();
    engine.steps(2);
    CHECK(engine.streams() == undisturbed(6));
    CHECK(engine.counted(48));
    CHECK(counter_of(engine, SessionCounter::clients_attached) == 2);
}

TEST_CASE("a session whose client does not come back is reaped, and its neighbour is undisturbed") {
    const DaemonProcess daemon(kTwoSamplers, "sessions: {reattach_grace_ms: 200}");
    const Shared<std::atomic<int>> submitted;
    // Before this process has an engine of its own: a fork takes none of ZMQ's threads along.
    auto child = start_child([&] {
        SmallEngine engine(daemon.endpoint(), "engine");
        engine.admit(8);
        engine.submit();
        *submitted = 1;
        ::raise(SIGSTOP);
    });
    SmallEngine neighbour(daemon.endpoint(), "neighbour");
    neighbour.admit(8);
    REQUIRE(eventually([&] { return *submitted == 1; }));
    REQUIRE(daemon.files_in_shm() == 5);
    neighbour.submit();
    child.kill_and_reap();
    neighbour.write();
    neighbour.collect();
    REQUIRE(eventually([&] { return daemon.files_in_shm() == 3; }));
    CHECK(daemon.says("its client is gone and did not come back"));
    neighbour.steps(3);
    CHECK(neighbour.streams() == undisturbed(4));
    EngineShape shape;
    shape.resume = true;
    SmallEngine late(daemon.endpoint(), "engine", shape);
    CHECK_FALSE(late.session().resumed());
}

TEST_CASE("without a grace a new session still waits for its own client to attach") {
    const DaemonProcess daemon(kTwoSamplers, "sessions: {reattach_grace_ms: 0}");
    for (int round = 0; round < 20; ++round) {
        SmallEngine engine(daemon.endpoint(), "engine-" + std::to_string(round));
        engine.admit(2);
        engine.step();
    }
    CHECK(eventually([&] { return daemon.files_in_shm() == 1; }));
}

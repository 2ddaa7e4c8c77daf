// A step whose logits do not come can be given up; what comes late reaches no other step.
#include <catch2/catch.hpp>
#include <csignal>

#include "daemon/observation/metrics.h"
#include "shm/snapshot.h"
#include "testing/daemon_process.h"
#include "testing/small_engine.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;
using proto::DecisionError;
using proto::SessionCounter;

namespace {

EngineShape shape_with(bool zmq) {
    EngineShape shape;
    shape.decisions_over_zmq = zmq;
    return shape;
}

std::uint64_t counter_of(const SmallEngine& engine, SessionCounter which) {
    const auto segment = shm::Segment::attach(engine.segment_path(), shm::Access::read_only);
    return segment.value().header().counter(which).load();
}

// The step is answered for every sequence with given_up.
void collect_given_up(SmallEngine& engine, std::size_t columns) {
    const auto step = engine.session().wait(20000);
    REQUIRE(step);
    CHECK(step->refused == 0);
    REQUIRE(step->decisions.size() == columns);
    for (const auto& decision : step->decisions) {
        CHECK(decision.error == static_cast<std::uint16_t>(DecisionError::given_up));
        CHECK(decision.token == -1);
    }
}

gpu_writer::RankWriter attach_writer(const SmallEngine& engine, std::uint32_t rank) {
    return std::move(gpu_writer::RankWriter::attach(engine.segment_path(), rank)).value();
}

// The rank's metric, as it is scraped.
double behind(const DaemonProcess& daemon, const std::string& rank) {
    const auto families = daemon::to_metrics(shm::observe(daemon.shm_directory(), daemon.instance()).value(),
                                             daemon::RecentMinutes(daemon::Moment::now()),
                                             daemon::JournalDigest(daemon.plane()));
    for (const auto& family : families) {
        if (family.name != "croupier_session_rank_behind_seconds") continue;
        for (const auto& metric : family.metric) {
            for (const auto& label : metric.label) {
                if (label.name == "rank" && label.value == rank) return metric.gauge.value;
            }
        }
    }
    FAIL("no metric names rank " << rank);
    return 0;
}

}  // namespace

TEST_CASE("a step whose rank is gone can be given up, its sequences finished, and the others go on") {
    const bool zmq = GENERATE(false, true);
    DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine", shape_with(zmq));
    engine.admit(8);
    engine.steps(2);
    engine.detach_writers();
    auto first = attach_writer(engine, 0);
    const std::uint64_t step = engine.submit();
    REQUIRE(first.publish_all(step));
    CHECK(behind(daemon, "0") == 0);
    CHECK(behind(daemon, "1") > 0);
    CHECK_FALSE(engine.session().wait(0));
    engine.session().give_up(step);
    collect_given_up(engine, 8);
    CHECK(behind(daemon, "1") == 0);
    CHECK(counter_of(engine, SessionCounter::steps_given_up) == 1);
    engine.finish(1);
    engine.finish(2);
    { auto released = std::move(first); }
    engine.attach_writers();
    // The same positions again, with mirostat and the penalties as if the step had not been.
    engine.steps(3);
    CHECK(daemon.terminate() == 0);
    CHECK_FALSE(daemon.says("still in flight"));
}

TEST_CASE("what a late rank writes for a step that was given up does not reach the next step in its slot") {
    const DaemonProcess daemon;
    EngineShape shape;
    shape.steps_in_flight = 1;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    engine.admit(8);
    engine.step();
    engine.detach_writers();
    auto late = attach_writer(engine, 1);
    const std::uint64_t step = engine.submit();
    const std::vector<std::uint16_t> junk(shape.vocab, 0x4400);
    late.write_column(step, 0, junk.data());
    REQUIRE(late.publish(step, 3));
    engine.session().give_up(step);
    collect_given_up(engine, 8);
    engine.submit();
    // It wakes: the rest of its slice, and the word of the old step.
    for (std::uint32_t column = 0; column < 8; ++column) late.write_column(step, column, junk.data());
    const auto published = late.publish_all(step);
    REQUIRE_FALSE(published);
    CHECK_THAT(published.error().message, Contains("not in flight"));
    CHECK_FALSE(engine.session().wait(0));
    { auto released = std::move(late); }
    engine.attach_writers();
    engine.write();
    engine.collect();
    engine.steps(2);
}

TEST_CASE("the columns that are decided when a step is given up keep their tokens") {
    const DaemonProcess daemon("{count: 1, heartbeat_timeout_ms: 600000}");
    SmallEngine engine(daemon.endpoint(), "engine");
    engine.admit(8);
    for (int round = 0; round < 50; ++round) {
        const std::uint64_t step = engine.submit();
        engine.write();
        engine.session().give_up(step);
        const auto given = engine.session().wait(20000);
        REQUIRE(given);
        for (const auto& decision : given->decisions) {
            const auto output = engine.session().output(decision.uid);
            if (decision.error == 0) {
                REQUIRE(output.size() == decision.output_index + 1);
                CHECK(output.back() == decision.token);
            } else {
                CHECK(decision.error == static_cast<std::uint16_t>(DecisionError::given_up));
                CHECK(output.size() == decision.output_index);
            }
        }
    }
}

TEST_CASE("sessions.step_deadline_ms gives up a step, and the log names the rank that was late") {
    const DaemonProcess daemon(kTwoSamplers, "sessions: {step_deadline_ms: 1000}");
    SmallEngine engine(daemon.endpoint(), "engine");
    engine.admit(8);
    engine.detach_writers();
    auto first = attach_writer(engine, 0);
    const std::uint64_t step = engine.submit();
    REQUIRE(first.publish_all(step));
    collect_given_up(engine, 8);
    REQUIRE(eventually([&] { return daemon.says("is given up after sessions.step_deadline_ms"); }));
    CHECK(daemon.says("rank 1 has published 0 of "));
    CHECK_FALSE(daemon.says("rank 0 has published"));
}

TEST_CASE("giving up says what is wrong with the step") {
    const DaemonProcess daemon;
    SmallEngine engine(daemon.endpoint(), "engine");
    engine.admit(8);
    CHECK_THAT(failure_of([&] { engine.session().give_up(0); }),
               Contains("bad_argument: step 0 is not in flight"));
    engine.step();
    CHECK_THAT(failure_of([&] { engine.session().give_up(0); }), Contains("step 0 is not in flight"));
}

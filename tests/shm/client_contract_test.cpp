// "Slow consumer, full ring", and the rest of what a client is told instead of being let down.
#include <catch2/catch.hpp>

#include "shm/step_window.h"
#include "test_session.h"

using namespace croupier;
using namespace croupier::shm;
using proto::SessionCounter;

TEST_CASE("a full schedule ring refuses the step, counts it, and loses none that is in flight") {
    TestSession session;
    Segment segment = session.open();
    auto client = SchedulePublisher::attach(segment);
    const std::uint32_t slots = segment.geometry().slots;
    for (std::uint64_t step = 0; step < slots; ++step) REQUIRE(client.value().publish(columns_of(step, 3)));
    const auto refused = client.value().publish(columns_of(slots, 3));
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::ring_full);
    CHECK(refused.error().message.find("all 3 step slots are in flight: take decisions") == 0);
    CHECK(session.count(SessionCounter::schedule_ring_full) == 1);
    for (std::uint64_t step = 0; step < slots; ++step) CHECK(decide_rest(session.daemon(), step, 3, 1) == 3);
    CHECK(take_all(client.value(), segment));
    CHECK(client.value().publish(columns_of(slots, 3)));
    CHECK(session.count(SessionCounter::steps_published) == slots + 1);
    CHECK(session.count(SessionCounter::steps_taken) == slots);
}

TEST_CASE("a client that is slow to take keeps its decisions in the ring") {
    TestSession session;
    Segment segment = session.open();
    auto client = SchedulePublisher::attach(segment);
    for (std::uint64_t step = 0; step < 3; ++step) REQUIRE(client.value().publish(columns_of(step, 4)));
    for (const std::uint64_t step : {2U, 0U, 1U}) decide_rest(session.daemon(), step, 4, 1);
    CHECK(take_all(client.value(), segment));
    CHECK(client.value().next_to_take() == 3);
}

TEST_CASE("a step without columns or with too many is refused, naming the room") {
    TestSession session;
    Segment segment = session.open();
    auto client = SchedulePublisher::attach(segment);
    for (const std::uint32_t columns : {0U, 9U}) {
        const auto refused = client.value().publish(columns_of(0, columns));
        REQUIRE_FALSE(refused);
        CHECK(refused.error().code == Errc::bad_argument);
        CHECK(refused.error().message.find("1 to 8 columns") != std::string::npos);
    }
}

TEST_CASE("a draining and a closed session refuse new steps, and say how to go on") {
    TestSession session;
    Segment segment = session.open();
    auto client = SchedulePublisher::attach(segment);
    session.daemon().header().state.store(proto::SessionState::draining);
    const Error draining = client.value().publish(columns_of(0, 1)).error();
    CHECK(draining.code == Errc::draining);
    CHECK(draining.message.find("open the session again at the next daemon") != std::string::npos);
    session.daemon().header().state.store(proto::SessionState::closed);
    const Error closed = client.value().publish(columns_of(0, 1)).error();
    CHECK(closed.code == Errc::session_closed);
    CHECK(closed.message.find("is closed: open it again, and add its sequences") != std::string::npos);
}

TEST_CASE("step counters that contradict the ring's size are unsound, and no client attaches to them") {
    TestSession session;
    auto& header = session.daemon().header();
    SECTION("more published than the ring holds") {
        header.published.store(4);
    }
    SECTION("taken what was never published") {
        header.taken.store(1);
    }
    SECTION("garbage") {
        header.published.store(3);
        header.taken.store(~0ULL);
    }
    CHECK_FALSE(steps_in_flight(session.daemon()).sound);
    Segment segment = session.open();
    const auto client = SchedulePublisher::attach(segment);
    REQUIRE_FALSE(client);
    CHECK(client.error().code == Errc::corrupt_header);
    CHECK(client.error().message.find("contradict") != std::string::npos);
}

TEST_CASE("a step is complete with its last column and not before, on both sides of a bitmap word") {
    proto::Geometry g = small_geometry();
    g.max_batch = 130;
    TestSession session(g);
    Segment segment = session.open();
    auto client = SchedulePublisher::attach(segment);
    for (const std::uint32_t columns : {1U, 63U, 64U, 65U, 128U, 130U}) {
        const std::uint64_t step =
            client.value().publish(columns_of(client.value().next_to_publish(), columns)).value();
        const std::uint32_t slot = segment.slot_of(step);
        CHECK(decide_rest(session.daemon(), step, columns - 1, 1) == columns - 1);
        CHECK_FALSE(step_complete(session.daemon(), slot, columns));
        CHECK(decide_rest(session.daemon(), step, columns, 1) == 1);
        CHECK(take_all(client.value(), segment));
    }
}

TEST_CASE("times are counted from publication to logits and from logits to the last commit") {
    TestSession session;
    Segment segment = session.open();
    auto client = SchedulePublisher::attach(segment);
    REQUIRE(client.value().publish(columns_of(0, 1)));
    const std::uint64_t published = segment.schedule(0).published_ns;
    segment.decision_head(0).logits_ready_ns.store(published + 100);
    decide_rest(session.daemon(), 0, 1, 1);
    segment.decision_head(0).last_commit_ns.store(published + 350);
    client.value().note_waiting_since(published + 300);
    CHECK(take_all(client.value(), segment));
    CHECK(session.count(SessionCounter::logits_wait_ns) == 100);
    CHECK(session.count(SessionCounter::step_decision_ns) == 250);
    CHECK(session.count(SessionCounter::exposed_ns) == 50);
}

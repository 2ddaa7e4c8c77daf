// Lean steps that the replays of a CUDA graph send.
#include <catch2/catch.hpp>

#include "tests/gpu_writer/lean_session.h"

using namespace croupier;
using testing::Bytes;
using testing::LeanSession;
using testing::Rows;
using testing::Way;

namespace {

constexpr std::uint32_t kColumns = testing::kLeanColumns;

using Graph = LeanSession::Graph;

Bytes part_of(const LeanSession& session, std::uint64_t step) {
    const shm::Segment& segment = session.files.segment;
    const auto* part =
        static_cast<const unsigned char*>(static_cast<const void*>(segment.lean(segment.slot_of(step), 0)));
    return {part, part + proto::lean_layout_of(segment.geometry(), 0).bytes};
}

}  // namespace

TEST_CASE("a captured lean step is replayed after each begin, and asked for though its rows are gone",
          "[lean][sanitized]") {
    if (!testing::can_run(Way::copied)) return;
    LeanSession session(Way::copied, testing::lean_geometry());
    LeanSession beside(Way::copied, testing::lean_geometry());
    const Graph graph = session.capture(session.rows(0).stride);
    for (std::uint64_t step = 0; step < 7; ++step) {
        const Rows rows = session.rows(static_cast<std::uint32_t>(step) + 2);
        for (LeanSession* each : {&session, &beside}) {
            testing::publish_step(each->client, kColumns);
            each->writer.memory().put(rows.bytes);
            REQUIRE(each->writer.begin(step) == 0);
        }
        graph->replay();
        session.writer.memory().put(Bytes(rows.bytes.size(), 0xEE));
        beside.writer.enqueue(rows);
        session.await(step);
        beside.await(step);
        INFO("step " << step);
        CHECK(part_of(session, step) == part_of(beside, step));
        CHECK(session.requested_block(step) == session.that_block(rows));
        for (LeanSession* each : {&session, &beside}) {
            each->decide(step);
            each->writer.await_finished(step + 1);
            each->client.take();
        }
    }
    CHECK(session.writer.state().empty_launches == 0);
}

TEST_CASE("graphs of different rows that are lent are replayed in any order", "[lean]") {
    if (!testing::can_run(Way::automatic)) return;
    LeanSession session(Way::automatic, testing::lean_geometry());
    const Rows some = session.rows(0);
    const Graph graphs[] = {session.capture(some.stride), session.capture(some.stride, some.bytes.size())};
    for (std::uint64_t step = 0; step < 6; ++step) {
        const Rows rows[] = {session.rows(static_cast<std::uint32_t>(2 * step + 1)),
                             session.rows(static_cast<std::uint32_t>(2 * step + 2))};
        Bytes both = rows[0].bytes;
        both.insert(both.end(), rows[1].bytes.begin(), rows[1].bytes.end());
        testing::publish_step(session.client, kColumns);
        session.writer.memory().put(both);
        REQUIRE(session.writer.begin(step) == 0);
        const std::size_t which = step % 3 == 1 ? 0 : 1;
        graphs[which]->replay();
        session.await(step);
        INFO("step " << step);
        CHECK(session.requested_block(step) == session.that_block(rows[which]));
        session.decide(step);
        session.writer.await_finished(step + 1);
        session.client.take();
    }
}

TEST_CASE("a step that was begun before the capture is replayed, and one that no graph sends is enqueued",
          "[lean]") {
    if (!testing::can_run(Way::copied)) return;
    LeanSession session(Way::copied, testing::lean_geometry());
    for (std::uint64_t step = 0; step < 3; ++step) testing::publish_step(session.client, kColumns);
    const Rows first = session.rows(1);
    REQUIRE(session.writer.begin(0) == 0);
    session.writer.enqueue(first);
    session.await(0);
    REQUIRE(session.writer.begin(1) == 0);
    const Graph graph = session.capture(first.stride);
    const Rows second = session.rows(2);
    session.writer.memory().put(second.bytes);
    graph->replay();
    session.await(1);
    CHECK(session.requested_block(1) == session.that_block(second));
    // The first one is still in flight.
    CHECK(session.requested_block(0) == session.that_block(first));
    session.decide(0);
    session.decide(1);
    const Rows third = session.rows(3);
    REQUIRE(session.writer.begin(2) == 0);
    session.writer.enqueue(third);
    session.await(2);
    CHECK(session.requested_block(2) == session.that_block(third));
    CHECK(session.writer.state().empty_launches == 0);
}

TEST_CASE("a lean replay that finds no begun step sends nothing and is counted", "[lean]") {
    if (!testing::can_run(Way::automatic)) return;
    LeanSession session(Way::automatic, testing::lean_geometry());
    const Rows rows = session.rows(1);
    testing::publish_step(session.client, kColumns);
    const Graph graph = session.capture(rows.stride);
    session.writer.memory().put(rows.bytes);
    graph->replay();
    session.writer.memory().synchronise();
    CHECK(session.writer.state().empty_launches == 1);
    CHECK_FALSE(shm::slice_ready(session.files.segment, 0, 0));
    SECTION("one that is begun then is found") {
        REQUIRE(session.writer.begin(0) == 0);
    }
    SECTION("so is one that was begun, given up, and begun again") {
        REQUIRE(session.writer.begin(0) == 0);
        REQUIRE(croupier_writer_abandon(session.writer.get(), nullptr) == 0);
        graph->replay();
        session.writer.memory().synchronise();
        CHECK(session.writer.state().empty_launches == 2);
        REQUIRE(session.writer.begin(0) == 0);
    }
    graph->replay();
    session.await(0);
    CHECK(session.requested_block(0) == session.that_block(rows));
}

TEST_CASE("tokens are awaited behind a replay", "[lean]") {
    if (!testing::can_run(Way::automatic)) return;
    LeanSession session(Way::automatic, testing::lean_geometry());
    const Rows rows = session.rows(1);
    const Graph graph = session.capture(rows.stride);
    for (std::uint64_t step = 0; step < 7; ++step) {
        testing::publish_step(session.client, kColumns);
        session.writer.memory().put(rows.bytes);
        REQUIRE(session.writer.begin(step) == 0);
        graph->replay();
        REQUIRE(croupier_writer_enqueue_awaited_tokens(session.writer.get(), session.writer.memory().stream(),
                                                       step, 20000, session.writer.memory().token_room(),
                                                       nullptr) == 0);
        session.await(step);
        // By the kernel that stands in the stream, which waits for its tokens.
        if (step % 2 == 0) CHECK(session.requested_block(step) == session.that_block(rows));
        const auto token = static_cast<std::int32_t>(10 * step);
        session.decide(step, token);
        CHECK(session.writer.memory().tokens(kColumns) == std::vector{token, token + 1, token + 2});
        session.client.take();
    }
}

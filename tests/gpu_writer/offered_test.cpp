// Where a session offers lean steps, each writer chooses: a GPU's sends them while whoever decides reads
// them, there is memory for the copies of its rows, and nobody waits for tokens before their step is
// enqueued.
#include <catch2/catch.hpp>

#include "tests/gpu_writer/lean_session.h"

using namespace croupier;
using proto::SliceFormat;
using testing::Bytes;
using testing::LeanSession;
using testing::Rows;
using testing::Way;

namespace {

constexpr std::uint32_t kColumns = testing::kLeanColumns;

proto::Geometry offering_geometry() {
    proto::Geometry geometry = testing::lean_geometry(false);
    geometry.offered_lean_blocks = geometry.lean_blocks;
    geometry.lean_blocks = 0;
    return geometry;
}

// A build that knows of no such offer raises the daemon's generation alone.
void decided_by_older_build(LeanSession& session, bool older) {
    proto::SegmentHeader& header = session.files.segment.header();
    const std::uint32_t next = header.daemon_generation.load() + 1;
    if (!older) header.mixing_generation.store(next);
    header.daemon_generation.store(next);
}

void check_sent(LeanSession& session, std::uint64_t step, const Rows& rows, bool lean) {
    session.await(step);
    INFO("step " << step);
    CHECK(session.format(step) == (lean ? SliceFormat::lean : SliceFormat::full_tiles));
    if (lean) {
        CHECK(session.wished_for(step) == session.that_block(rows));
    } else {
        CHECK(session.holds(step, rows));
    }
    session.decide(step, 10);
    session.client.take();
}

}  // namespace

TEST_CASE("where lean steps are offered a host sends rows, and so does a path that is asked for", "[lean]") {
    const auto way = GENERATE(Way::host, Way::store, Way::copy);
    if (!testing::can_run(way)) return;
    LeanSession session(way, offering_geometry());
    CHECK_FALSE(session.sends_lean());
    const Rows rows = session.rows(1);
    testing::publish_step(session.client, kColumns);
    session.writer.write(0, rows);
    check_sent(session, 0, rows, false);
}

TEST_CASE("where lean steps are offered a GPU sends them of rows that may be written over", "[lean]") {
    const auto way = GENERATE(Way::automatic, Way::copied);
    if (!testing::can_run(way)) return;
    LeanSession session(way, offering_geometry());
    CHECK(session.sends_lean());
    for (std::uint64_t step = 0; step < 5; ++step) {
        const Rows rows = session.rows(static_cast<std::uint32_t>(step));
        testing::publish_step(session.client, kColumns);
        REQUIRE(session.writer.begin(step) == 0);
        session.writer.enqueue(rows);
        session.writer.memory().put(Bytes(rows.bytes.size(), 0xEE));
        check_sent(session, step, rows, true);
    }
}

TEST_CASE("a writer goes by who decides now: rows for an older build, and lean steps again", "[lean]") {
    if (!testing::can_run(Way::automatic)) return;
    LeanSession session(Way::automatic, offering_geometry());
    for (std::uint64_t step = 0; step < 9; ++step) {
        const bool older = step % 3 == 1;
        decided_by_older_build(session, older);
        CHECK(session.sends_lean() != older);
        const Rows rows = session.rows(static_cast<std::uint32_t>(step));
        testing::publish_step(session.client, kColumns);
        REQUIRE(session.writer.begin(step) == 0);
        session.writer.enqueue(rows);
        check_sent(session, step, rows, !older);
        session.writer.await_finished(step + 1);
    }
}

TEST_CASE(
    "a step that is begun while its samplers read lean steps is sent as whoever decides reads it by then",
    "[lean]") {
    if (!testing::can_run(Way::automatic)) return;
    LeanSession session(Way::automatic, offering_geometry());
    for (std::uint64_t step = 0; step < 6; ++step) {
        const bool older = step % 3 == 1;
        const Rows rows = session.rows(static_cast<std::uint32_t>(step));
        testing::publish_step(session.client, kColumns);
        REQUIRE(session.writer.begin(step) == 0);
        if (older) decided_by_older_build(session, true);
        session.writer.enqueue(rows);
        check_sent(session, step, rows, !older);
        if (older) decided_by_older_build(session, false);
        session.writer.await_finished(step + 1);
    }
}

TEST_CASE("tokens that are awaited before their step is enqueued make it one of rows, and all that follow",
          "[lean]") {
    if (!testing::can_run(Way::automatic)) return;
    LeanSession session(Way::automatic, offering_geometry());
    const auto beside = testing::make_gpu_memory(4096);
    for (std::uint64_t step = 0; step < 7; ++step) {
        const bool before = step == 2;
        const Rows rows = session.rows(static_cast<std::uint32_t>(step));
        testing::publish_step(session.client, kColumns);
        REQUIRE(session.writer.begin(step) == 0);
        const auto await_tokens = [&](void* stream, std::int32_t* room) {
            croupier_error error{};
            const int status = croupier_writer_enqueue_awaited_tokens(session.writer.get(), stream, step,
                                                                      20000, room, &error);
            INFO(error.text);
            REQUIRE(status == 0);
        };
        // By two streams, each with its own tokens.
        if (before) await_tokens(beside->stream(), beside->token_room());
        session.writer.enqueue(rows);
        await_tokens(session.writer.memory().stream(), session.writer.memory().token_room());
        check_sent(session, step, rows, step < 2);
        const std::vector<std::int32_t> tokens{10, 11, 12};
        if (before) CHECK(beside->tokens(kColumns) == tokens);
        CHECK(session.writer.memory().tokens(kColumns) == tokens);
    }
}

TEST_CASE("where all steps are lean, tokens that are awaited before their step is enqueued are refused",
          "[lean]") {
    if (!testing::can_run(Way::automatic)) return;
    LeanSession session(Way::automatic, testing::lean_geometry(false));
    testing::publish_step(session.client, kColumns);
    REQUIRE(session.writer.begin(0) == 0);
    croupier_error error{};
    CHECK(croupier_writer_enqueue_awaited_tokens(session.writer.get(), session.writer.memory().stream(), 0,
                                                 100, session.writer.memory().token_room(), &error) == -1);
    CHECK_THAT(error.text, Catch::Contains("not enqueued yet"));
}

TEST_CASE("where rows are copied samplers go on asking, though tokens came late or not at all", "[lean]") {
    if (!testing::can_run(Way::automatic)) return;
    LeanSession session(Way::automatic, offering_geometry());
    const bool replayed = GENERATE(false, true);
    const auto graph = replayed ? session.capture(session.rows(0).stride) : nullptr;
    std::uint64_t late = 0;
    for (std::uint64_t step = 0; step < 4; ++step) {
        const Rows rows = session.rows(static_cast<std::uint32_t>(step));
        testing::publish_step(session.client, kColumns);
        REQUIRE(session.writer.begin(step) == 0);
        session.send(rows, graph);
        session.await(step);
        // Once more often than anything is counted by.
        const int often = step == 0 ? 20 : 2;
        for (int i = 0; i < often; ++i) {
            REQUIRE(croupier_writer_enqueue_awaited_tokens(
                        session.writer.get(), session.writer.memory().stream(), step, 20,
                        session.writer.memory().token_room(), nullptr) == 0);
            CHECK(session.writer.memory().tokens(kColumns) == std::vector<std::int32_t>(kColumns, -1));
            CHECK(session.writer.state().late_steps == ++late);
            CHECK(session.wished_for(step) == session.that_block(rows));
        }
        session.writer.memory().put(Bytes(rows.bytes.size(), 0xEE));
        session.writer.memory().synchronise();
        CHECK(session.wished_for(step) == session.that_block(rows));
        session.decide(step, 10);
        session.client.take();
    }
}

TEST_CASE("who waits for the GPU waits for no step that nobody decides", "[lean]") {
    if (!testing::can_run(Way::automatic)) return;
    LeanSession session(Way::automatic, offering_geometry());
    const Rows rows = session.rows(1);
    testing::publish_step(session.client, kColumns);
    REQUIRE(session.writer.begin(0) == 0);
    session.writer.enqueue(rows);
    session.await(0);
    for (int round = 0; round < 2; ++round) {
        CHECK(session.wished_for(0) == session.that_block(rows));
        const auto begun = std::chrono::steady_clock::now();
        testing::synchronise_gpu();
        CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(20));
    }
    session.decide(0);
}

TEST_CASE("a graph has the kernels of who decides when it is captured", "[lean]") {
    if (!testing::can_run(Way::automatic)) return;
    LeanSession session(Way::automatic, offering_geometry());
    const bool lean = GENERATE(true, false);
    // Begun as lean, and found by the graph in either way.
    testing::publish_step(session.client, kColumns);
    REQUIRE(session.writer.begin(0) == 0);
    decided_by_older_build(session, !lean);
    const auto graph = session.capture(session.rows(0).stride);
    decided_by_older_build(session, false);
    CHECK(session.sends_lean() == lean);
    for (std::uint64_t step = 0; step < 5; ++step) {
        const Rows rows = session.rows(static_cast<std::uint32_t>(step));
        if (step > 0) {
            testing::publish_step(session.client, kColumns);
            REQUIRE(session.writer.begin(step) == 0);
        }
        session.writer.memory().put(rows.bytes);
        graph->replay();
        check_sent(session, step, rows, lean);
        session.writer.await_finished(step + 1);
    }
    CHECK(session.writer.state().empty_launches == 0);
}

TEST_CASE("a step that began as rows is no graph's of lean steps, and the capture says so", "[lean]") {
    if (!testing::can_run(Way::automatic)) return;
    LeanSession session(Way::automatic, offering_geometry());
    const Rows rows = session.rows(1);
    decided_by_older_build(session, true);
    testing::publish_step(session.client, kColumns);
    REQUIRE(session.writer.begin(0) == 0);
    decided_by_older_build(session, false);
    LeanSession::Graph graph;
    const auto refused = session.try_capture(rows.stride, graph);
    CHECK(refused.status == -1);
    CHECK_THAT(refused.error.text,
               Catch::Contains("step 0") && Catch::Contains("enqueue it before the capture"));
    session.writer.enqueue(rows);
    check_sent(session, 0, rows, false);
}

TEST_CASE("lean steps that an older build finds in flight are sent as rows, and so are those of a graph",
          "[lean]") {
    if (!testing::can_run(Way::automatic)) return;
    proto::Geometry geometry = offering_geometry();
    geometry.has_summaries = GENERATE(0U, 1U);
    LeanSession session(Way::automatic, geometry);
    const shm::Segment& segment = session.files.segment;
    const bool replayed = GENERATE(false, true);
    const auto graph = replayed ? session.capture(session.rows(0).stride) : nullptr;
    for (std::uint64_t step = 0; step < 5; ++step) {
        const Rows rows = session.rows(static_cast<std::uint32_t>(step));
        // A graph's are begun as they can be, whoever decides.
        if (replayed) decided_by_older_build(session, step % 2 == 1);
        testing::publish_step(session.client, kColumns);
        REQUIRE(session.writer.begin(step) == 0);
        session.send(rows, graph);
        session.await(step);
        if (step == 2) CHECK(session.wished_for(step) == session.that_block(rows));
        decided_by_older_build(session, true);
        REQUIRE(testing::soon([&] { return shm::rows_ready(segment, step, 0); }));
        CHECK(session.format(step) == SliceFormat::full_tiles);
        CHECK(session.holds(step, rows));
        if (geometry.has_summaries != 0) {
            const Bytes slice = testing::naive_slice(geometry, 0, kColumns, {}, rows);
            const auto wanted = testing::naive_maxima(geometry, 0, kColumns, slice);
            const auto maxima = segment.maxima(segment.slot_of(step), 0);
            for (std::size_t pair = 0; pair < wanted.size(); ++pair)
                REQUIRE(testing::same(maxima[pair % kColumns * geometry.maxima_stride(0) + pair / kColumns],
                                      wanted[pair]));
        }
        session.decide(step);
        session.writer.await_finished(step + 1);
        session.client.take();
        decided_by_older_build(session, false);
    }
}

TEST_CASE("a lean step that stood while its writer gave another one up is sent as rows all the same",
          "[lean]") {
    if (!testing::can_run(Way::automatic)) return;
    LeanSession session(Way::automatic, offering_geometry());
    const Rows rows = session.rows(1);
    for (int step = 0; step < 2; ++step) testing::publish_step(session.client, kColumns);
    REQUIRE(session.writer.begin(0) == 0);
    session.writer.enqueue(rows);
    session.await(0);
    session.writer.await_finished(1);
    REQUIRE(session.writer.begin(1) == 0);
    REQUIRE(croupier_writer_abandon(session.writer.get(), nullptr) == 0);
    decided_by_older_build(session, true);
    REQUIRE(testing::soon([&] { return shm::rows_ready(session.files.segment, 0, 0); }));
    CHECK(session.holds(0, rows));
    const Rows next = session.rows(2);
    REQUIRE(session.writer.begin(1) == 0);
    session.writer.enqueue(next);
    session.await(1);
    CHECK(session.holds(1, next));
    session.decide(0);
    session.decide(1);
}

TEST_CASE("copies that nobody asked for take an eighth of the free memory at the most", "[lean]") {
    if (!testing::can_run(Way::automatic)) return;
    proto::Geometry geometry = offering_geometry();
    geometry.vocab = 131072;
    geometry.max_batch = 128;
    proto::fill_even_shards(geometry);
    // 100 MB of copies.
    const std::size_t copies = std::size_t{2} * geometry.vocab * geometry.max_batch * geometry.slots;
    const bool enough = GENERATE(true, false);
    const std::size_t left = enough ? 10 * copies : 7 * copies;
    const auto taken = testing::make_gpu_memory(testing::free_gpu_bytes() - left);
    testing::SessionFiles files(geometry);
    // Who asks for copies has them all the same.
    const auto way = GENERATE(Way::automatic, Way::copied);
    testing::WriterUnderTest writer(way, files.segment.path(), 0, 4096);
    croupier_writer_info info;
    croupier_writer_info_init(&info);
    REQUIRE(croupier_writer_get_info(writer.get(), &info, nullptr) == 0);
    CHECK((info.sends_lean != 0) == (enough || way == Way::copied));
}

// A worker's stream that does not come to its work: what is enqueued behind it waits, and nobody else does.
#include <catch2/catch.hpp>

#include "shm/logits_publisher.h"
#include "tests/gpu_writer/writer_under_test.h"

using namespace croupier;
using testing::Bytes;
using testing::Rows;
using testing::SessionFiles;
using testing::Way;
using testing::WriterUnderTest;

namespace {

constexpr std::uint32_t kColumns = 3;

proto::Geometry two_ranks() {
    proto::Geometry geometry = testing::small_geometry();
    geometry.tp = 2;
    proto::fill_even_shards(geometry);
    return geometry;
}

struct Session {
    explicit Session(Way way)
        : files(two_ranks()),
          client(testing::need(shm::SchedulePublisher::attach(files.segment))),
          rows(testing::random_rows(two_ranks(), 0, kColumns, 500, 1)),
          stalled(way, files.segment.path(), 0, rows.bytes.size()),
          other(Way::host, files.segment.path(), 1, 0) {
        logits = stalled.memory().put(rows.bytes);
        stalled.memory().synchronise();
    }
    int enqueue() {
        return croupier_writer_enqueue(stalled.get(), stalled.memory().stream(), logits, rows.stride,
                                       nullptr);
    }

    SessionFiles files;
    shm::SchedulePublisher client;
    Rows rows;
    WriterUnderTest stalled;
    WriterUnderTest other;
    const void* logits = nullptr;
};

}  // namespace

TEST_CASE("a stalled stream holds up its own slices, and neither its worker's thread nor another rank") {
    const auto way = GENERATE(Way::store, Way::copy);
    if (!testing::can_run(way)) return;
    Session session(way);
    session.stalled.memory().stall();
    for (std::uint32_t step = 0; step < 2; ++step) {
        testing::publish_step(session.client, kColumns);
        REQUIRE(session.stalled.begin(step) == 0);
        REQUIRE(session.enqueue() == 0);
        session.other.write(step, testing::random_rows(two_ranks(), 1, kColumns, 500, step));
        CHECK(shm::slice_ready(session.files.segment, step, 1));
        CHECK_FALSE(shm::slice_ready(session.files.segment, step, 0));
    }
    // Both slots of the session wait.
    CHECK(session.stalled.begin(2) == CROUPIER_WRITER_BUSY);
    CHECK(session.stalled.state().finished == 0);
    session.stalled.memory().resume();
    session.stalled.await_finished(2);
    const Bytes wanted = testing::naive_slice(two_ranks(), 0, kColumns, {}, session.rows);
    for (std::uint32_t step = 0; step < 2; ++step) {
        CHECK(shm::slice_ready(session.files.segment, step, 0));
        CHECK(testing::slice_of(session.files.segment, step, 0, wanted.size()) == wanted);
    }
}

TEST_CASE("what a stalled stream stores after its rank was fenced counts for nothing") {
    const auto way = GENERATE(Way::store, Way::copy);
    if (!testing::can_run(way)) return;
    Session session(way);
    testing::publish_step(session.client, kColumns);
    session.stalled.memory().stall();
    REQUIRE(session.stalled.begin(0) == 0);
    REQUIRE(session.enqueue() == 0);
    // As a successor's attach does.
    session.files.segment.header().writers[0].epoch.fetch_add(1);
    session.stalled.memory().resume();
    session.stalled.await_finished(1);
    CHECK(session.stalled.state().open == 0);
    CHECK_FALSE(shm::slice_ready(session.files.segment, 0, 0));
}

#include <algorithm>
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

proto::Geometry ring_geometry() {
    proto::Geometry geometry = testing::small_geometry();
    geometry.slots = 3;
    geometry.has_summaries = 1;
    return geometry;
}

std::unique_ptr<testing::CapturedGraph> capture(WriterUnderTest& writer, const Rows& rows) {
    const void* at = writer.memory().put(rows.bytes);
    writer.memory().synchronise();
    return writer.memory().capture([&] {
        croupier_error error{};
        INFO(error.text);
        REQUIRE(croupier_writer_enqueue_randoms(writer.get(), writer.memory().stream(), &error) == 0);
        REQUIRE(croupier_writer_enqueue(writer.get(), writer.memory().stream(), at, rows.stride, &error) ==
                0);
    });
}

}  // namespace

TEST_CASE("a captured enqueue is replayed after each begin, with other columns, slots and values each time",
          "[sanitized]") {
    const auto way = GENERATE(Way::store, Way::automatic);
    if (!testing::can_run(way)) return;
    const proto::Geometry geometry = ring_geometry();
    SessionFiles files(geometry);
    auto client = testing::need(shm::SchedulePublisher::attach(files.segment));
    WriterUnderTest writer(way, files.segment.path(), 0, std::size_t{1024} * 8 * 2);
    const auto graph = capture(writer, testing::random_rows(geometry, 0, 8, 1024, 0));
    for (std::uint32_t step = 0; step < 8; ++step) {
        const std::uint32_t columns = 1 + step * 3 % 8;
        const Rows rows = testing::random_rows(geometry, 0, columns, 1024, step);
        REQUIRE(testing::publish_step(client, columns) == step);
        writer.memory().put(rows.bytes);
        REQUIRE(writer.begin(step) == 0);
        graph->replay();
        writer.await_finished(step + 1);
        INFO("step " << step);
        CHECK(shm::slice_ready(files.segment, step, 0));
        CHECK(shm::randoms_ready(files.segment, step));
        const Bytes wanted = testing::naive_slice(geometry, 0, columns, {}, rows);
        REQUIRE(testing::slice_of(files.segment, step, 0, wanted.size()) == wanted);
        client.take();
    }
    CHECK(writer.state().empty_launches == 0);
}

TEST_CASE("a replay that finds no begun step writes nothing and is counted") {
    if (!testing::can_run(Way::store)) return;
    const proto::Geometry geometry = ring_geometry();
    SessionFiles files(geometry);
    auto client = testing::need(shm::SchedulePublisher::attach(files.segment));
    testing::publish_step(client, 8);
    WriterUnderTest writer(Way::store, files.segment.path(), 0, std::size_t{1024} * 8 * 2);
    const Rows rows = testing::random_rows(geometry, 0, 8, 1024, 1);
    const Bytes before = testing::slice_of(files.segment, 0, 0, 4096);
    const auto graph = capture(writer, rows);
    graph->replay();
    writer.memory().synchronise();
    CHECK(writer.state().empty_launches == 1);
    CHECK(writer.state().finished == 0);
    CHECK(testing::slice_of(files.segment, 0, 0, 4096) == before);
    REQUIRE(writer.begin(0) == 0);
    graph->replay();
    writer.await_finished(1);
    CHECK(shm::slice_ready(files.segment, 0, 0));
}

TEST_CASE("the path copy refuses to be captured, and says what can be") {
    if (!testing::can_run(Way::copy)) return;
    SessionFiles files(ring_geometry());
    auto client = testing::need(shm::SchedulePublisher::attach(files.segment));
    testing::publish_step(client, 1);
    WriterUnderTest writer(Way::copy, files.segment.path(), 0, 2048);
    const void* at = writer.memory().put(Bytes(2048));
    writer.memory().synchronise();
    croupier_error error{};
    int status = 0;
    writer.memory().capture(
        [&] { status = croupier_writer_enqueue(writer.get(), writer.memory().stream(), at, 1024, &error); });
    CHECK(status == -1);
    CHECK_THAT(error.text, Catch::Contains("cannot be captured") && Catch::Contains("store"));
    CHECK(writer.begin(0) == 0);
    writer.enqueue(testing::random_rows(ring_geometry(), 0, 1, 1000, 1));
    writer.await_finished(1);
    CHECK(shm::slice_ready(files.segment, 0, 0));
}

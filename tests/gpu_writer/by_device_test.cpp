// In a session whose transport is by device a GPU's steps are lean and a host's are rows, and an engine need
// not lend its rows.
#include <catch2/catch.hpp>

#include "proto/lean_part.h"
#include "shm/logits_publisher.h"
#include "tests/gpu_writer/lean_session.h"

using namespace croupier;
using proto::SliceFormat;
using testing::Bytes;
using testing::LeanSession;
using testing::Rows;
using testing::SessionFiles;
using testing::Way;

namespace {

constexpr std::uint32_t kColumns = testing::kLeanColumns;

proto::Geometry by_device_geometry() {
    return testing::lean_geometry(true);
}

}  // namespace

TEST_CASE("where the transport is by device a host sends rows, and so does a path that is asked for",
          "[lean]") {
    const auto way = GENERATE(Way::host, Way::store, Way::copy);
    if (!testing::can_run(way)) return;
    LeanSession session(way, by_device_geometry());
    CHECK_FALSE(session.sends_lean());
    const Rows rows = session.rows(1);
    testing::publish_step(session.client, kColumns);
    session.writer.write(0, rows);
    CHECK(session.format(0) == SliceFormat::full_tiles);
    CHECK(session.holds(0, rows));
}

TEST_CASE("where the transport is by device a GPU sends lean steps of rows that may be written over",
          "[lean]") {
    if (!testing::can_run(Way::automatic)) return;
    LeanSession session(Way::automatic, by_device_geometry());
    CHECK(session.sends_lean());
    const Rows rows = session.rows(1);
    testing::publish_step(session.client, kColumns);
    REQUIRE(session.writer.begin(0) == 0);
    session.writer.enqueue(rows);
    session.writer.memory().put(Bytes(rows.bytes.size(), 0xEE));
    session.await(0);
    CHECK(session.format(0) == SliceFormat::lean);
    CHECK(session.wished_for(0) == session.that_block(rows));
}

TEST_CASE("whoever begins a complete step leaves its format", "[lean]") {
    const proto::Geometry geometry = by_device_geometry();
    SessionFiles files(geometry);
    auto client = testing::need(shm::SchedulePublisher::attach(files.segment));
    auto publisher = testing::need(shm::LogitsPublisher::attach(files.segment, 0));
    const bool lean = GENERATE(false, true);
    const SliceFormat format = lean ? SliceFormat::lean : SliceFormat::full_tiles;
    const SliceFormat other = lean ? SliceFormat::full_tiles : SliceFormat::lean;
    testing::publish_step(client, kColumns);
    REQUIRE(publisher.begin(0, other));
    REQUIRE(publisher.begin(0, format));
    REQUIRE((lean ? publisher.publish_lean(0) : publisher.publish(0, geometry.tiles(0))));
    (void)publisher.begin(0, other);
    CHECK(files.segment.ready(files.segment.slot_of(0), 0).format == format);
}

TEST_CASE("a rank that would send a step otherwise than another one did is told so, where none may",
          "[lean]") {
    proto::Geometry geometry = by_device_geometry();
    geometry.tp = 2;
    proto::fill_even_shards(geometry);
    SessionFiles files(geometry);
    // Whoever decides is of an older build, which says nothing of this.
    files.segment.header().daemon_generation.store(files.segment.header().mixing_generation + 1);
    auto client = testing::need(shm::SchedulePublisher::attach(files.segment));
    auto first = testing::need(shm::LogitsPublisher::attach(files.segment, 0));
    auto second = testing::need(shm::LogitsPublisher::attach(files.segment, 1));
    for (std::uint64_t step = 0; step < 2; ++step) testing::publish_step(client, kColumns);
    REQUIRE(first.begin(0, SliceFormat::lean));
    // Nothing of it is sent yet.
    REQUIRE(second.begin(0, SliceFormat::full_tiles));
    REQUIRE(first.publish_lean(0));
    const auto refused = second.begin(0, SliceFormat::full_tiles);
    REQUIRE_FALSE(refused);
    CHECK_THAT(refused.error().message,
               Catch::Contains("step 0 is sent as a lean step by rank 0, and rank 1 sends it as rows"));
    CHECK(second.begin(0, SliceFormat::lean));
    CHECK(second.begin(1, SliceFormat::full_tiles));
}

// In a session whose transport is by device a GPU's steps are lean and a host's are rows, and an engine need
// not lend its rows.
#include <catch2/catch.hpp>

#include "proto/lean_part.h"
#include "shm/logits_publisher.h"
#include "shm/wishes.h"
#include "tests/gpu_writer/writer_under_test.h"

using namespace croupier;
using proto::SliceFormat;
using testing::Bytes;
using testing::Rows;
using testing::SessionFiles;
using testing::soon;
using testing::Way;
using testing::WriterUnderTest;

namespace {

constexpr std::uint32_t kColumns = 3;

proto::Geometry by_device_geometry() {
    proto::Geometry geometry = testing::small_geometry();
    geometry.slots = 3;
    geometry.tile = proto::kBlockIds;
    geometry.lean_blocks = proto::kLeanGranule;
    geometry.lean_of_devices = 1;
    return geometry;
}

struct Session {
    explicit Session(Way way, const proto::Geometry& geometry = by_device_geometry())
        : files(geometry),
          client(testing::need(shm::SchedulePublisher::attach(files.segment))),
          writer(way, files.segment.path(), 0, std::size_t{geometry.max_batch} * geometry.vocab * 2) {}

    Rows rows(std::uint32_t seed, std::uint32_t columns = kColumns) const {
        return testing::random_rows(files.segment.geometry(), 0, columns, files.segment.geometry().vocab,
                                    seed);
    }
    bool sends_lean() {
        croupier_writer_info info;
        croupier_writer_info_init(&info);
        REQUIRE(croupier_writer_get_info(writer.get(), &info, nullptr) == 0);
        return info.sends_lean != 0;
    }
    SliceFormat format(std::uint64_t step) const {
        return files.segment.ready(files.segment.slot_of(step), 0).format;
    }
    void await(std::uint64_t step) const {
        REQUIRE(soon([&] { return shm::slice_ready(files.segment, step, 0); }));
    }
    // Of a step of rows.
    bool holds(std::uint64_t step, const Rows& rows) const {
        const Bytes wanted = testing::naive_slice(files.segment.geometry(), 0, kColumns, {}, rows);
        return testing::slice_of(files.segment, step, 0, wanted.size()) == wanted;
    }

    SessionFiles files;
    shm::SchedulePublisher client;
    WriterUnderTest writer;
};

// Block 1 of column 2, once it is answered.
Bytes wished_for(const Session& session, std::uint64_t step) {
    const shm::Wishes wishes(session.files.segment, step, shm::writer_epochs(session.files.segment));
    std::vector<std::uint64_t> bits(wishes.bits(0).size());
    bits[0] = 2;
    wishes.ask(2, bits);
    REQUIRE(soon([&] { return wishes.unanswered(2, 0) == 0; }));
    constexpr std::ptrdiff_t kBytes = std::ptrdiff_t{proto::kBlockIds} * 2;
    const Bytes slice = testing::slice_of(session.files.segment, step, 0, std::size_t{2} * kColumns * kBytes);
    return {slice.end() - kBytes, slice.end()};
}
Bytes that_block(const Rows& rows) {
    constexpr std::ptrdiff_t kBytes = std::ptrdiff_t{proto::kBlockIds} * 2;
    const Bytes slice = testing::naive_slice(by_device_geometry(), 0, kColumns, {}, rows);
    const auto at = slice.begin() + (std::ptrdiff_t{kColumns} + 2) * kBytes;
    return {at, at + kBytes};
}

std::string captured(Session& session, const Rows& rows, std::unique_ptr<testing::CapturedGraph>& graph) {
    const void* at = session.writer.memory().put(rows.bytes);
    session.writer.memory().synchronise();
    croupier_error error{};
    int status = 0;
    graph = session.writer.memory().capture([&] {
        status = croupier_writer_enqueue(session.writer.get(), session.writer.memory().stream(), at,
                                         rows.stride, &error);
    });
    return status == 0 ? "" : error.text;
}

}  // namespace

TEST_CASE("where the transport is by device a host sends rows, and so does a path that is asked for",
          "[lean]") {
    const auto way = GENERATE(Way::host, Way::store, Way::copy);
    if (!testing::can_run(way)) return;
    Session session(way);
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
    Session session(Way::automatic);
    CHECK(session.sends_lean());
    const Rows rows = session.rows(1);
    testing::publish_step(session.client, kColumns);
    REQUIRE(session.writer.begin(0) == 0);
    session.writer.enqueue(rows);
    session.writer.memory().put(Bytes(rows.bytes.size(), 0xEE));
    session.await(0);
    CHECK(session.format(0) == SliceFormat::lean);
    CHECK(wished_for(session, 0) == that_block(rows));
}

TEST_CASE("where the transport is by device a capture makes later steps steps of rows", "[lean]") {
    if (!testing::can_run(Way::automatic)) return;
    Session session(Way::automatic);
    const Rows first = session.rows(1);
    std::unique_ptr<testing::CapturedGraph> graph;
    testing::publish_step(session.client, kColumns);
    REQUIRE(session.writer.begin(0) == 0);
    SECTION("but not those that are begun") {
        CHECK_THAT(captured(session, first, graph),
                   Catch::Contains("a step is begun that is to be sent lean"));
        CHECK(session.sends_lean());
        session.writer.enqueue(first);
        session.await(0);
        CHECK(wished_for(session, 0) == that_block(first));
        return;
    }
    session.writer.enqueue(first);
    session.writer.memory().put(Bytes(first.bytes.size(), 0xEE));
    session.await(0);
    CHECK(captured(session, session.rows(2), graph).empty());
    CHECK_FALSE(session.sends_lean());
    for (std::uint64_t step = 1; step < 3; ++step) {
        const Rows rows = session.rows(static_cast<std::uint32_t>(step) + 2);
        testing::publish_step(session.client, kColumns);
        session.writer.memory().put(rows.bytes);
        REQUIRE(session.writer.begin(step) == 0);
        graph->replay();
        session.await(step);
        CHECK(session.format(step) == SliceFormat::full_tiles);
        CHECK(session.holds(step, rows));
    }
    CHECK(session.writer.state().empty_launches == 0);
    // The lean step is still in flight.
    CHECK(wished_for(session, 0) == that_block(first));
}

TEST_CASE("where all steps are lean a capture is refused, and what would do is named", "[lean]") {
    if (!testing::can_run(Way::automatic)) return;
    proto::Geometry geometry = by_device_geometry();
    geometry.lean_of_devices = 0;
    Session session(Way::automatic, geometry);
    std::unique_ptr<testing::CapturedGraph> graph;
    CHECK_THAT(captured(session, session.rows(1), graph),
               Catch::Contains("cannot be captured") && Catch::Contains("transport by device or rows"));
    CHECK(session.sends_lean());
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

TEST_CASE("a rank that would send a step otherwise than another one did is told so", "[lean]") {
    proto::Geometry geometry = by_device_geometry();
    geometry.tp = 2;
    proto::fill_even_shards(geometry);
    SessionFiles files(geometry);
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

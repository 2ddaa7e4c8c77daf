#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "gpu_writer/rank_writer.h"
#include "proto/lean_part.h"
#include "shm/schedule_publisher.h"
#include "testing/session_files.h"

using namespace croupier;
using gpu_writer::RankWriter;
using testing::need;
using testing::SessionFiles;

namespace {

using Bytes = std::vector<unsigned char>;

Bytes random_rows(std::size_t bytes, std::uint32_t seed) {
    std::mt19937 random(seed);
    Bytes rows(bytes);
    for (auto& byte : rows) byte = static_cast<unsigned char>(random());
    return rows;
}

Bytes minus_infinity(proto::Dtype dtype) {
    if (dtype == proto::Dtype::bf16) return {0x80, 0xFF};
    if (dtype == proto::Dtype::fp16) return {0x00, 0xFC};
    return {0x00, 0x00, 0x80, 0xFF};
}

// The layout as docs/architecture.md words it, one element at a time.
Bytes naive_slice(const proto::Geometry& geometry, std::uint32_t rank, std::uint32_t columns,
                  const Bytes& rows) {
    const std::size_t size = proto::element_bytes(geometry.dtype);
    const proto::RankShard& shard = geometry.shards[rank];
    const Bytes padding = minus_infinity(geometry.dtype);
    Bytes slice;
    for (std::size_t tile = 0; tile < geometry.tiles(rank); ++tile) {
        for (std::size_t column = 0; column < columns; ++column) {
            for (std::size_t within = 0; within < geometry.tile; ++within) {
                const std::size_t id = std::size_t{shard.first_block()} * 64 + tile * geometry.tile + within;
                const std::size_t end = std::min(shard.first_id + shard.count, geometry.vocab);
                const bool real = id >= shard.first_id && id < end;
                const std::size_t in_rows = column * shard.count + id - shard.first_id;
                const auto from =
                    real ? rows.begin() + static_cast<std::ptrdiff_t>(in_rows * size) : padding.begin();
                slice.insert(slice.end(), from, from + static_cast<std::ptrdiff_t>(size));
            }
        }
    }
    return slice;
}

std::vector<const void*> row_pointers(const Bytes& rows, std::size_t row_bytes, std::uint32_t columns) {
    std::vector<const void*> pointers;
    for (std::uint32_t column = 0; column < columns; ++column)
        pointers.push_back(rows.data() + column * row_bytes);
    return pointers;
}

Bytes slice_of(const RankWriter& writer, std::uint64_t step, std::size_t bytes) {
    const auto* begin = static_cast<const unsigned char*>(writer.slice(step));
    return {begin, begin + bytes};
}

std::uint64_t publish_step(shm::SchedulePublisher& client, std::uint32_t columns) {
    std::vector<proto::ScheduleColumn> asked(columns);
    for (std::uint32_t i = 0; i < columns; ++i) asked[i].sequence_uid = 100 + i;
    return need(client.publish(asked));
}

}  // namespace

TEST_CASE("rows that a host writer lays down stand where the layout says, for every tile, dtype and shard") {
    const auto tile = GENERATE(1U, 64U);
    const auto dtype = GENERATE(proto::Dtype::bf16, proto::Dtype::fp16, proto::Dtype::fp32);
    const auto tp = GENERATE(1U, 3U, 7U);
    const auto columns = GENERATE(1U, 5U, 8U);
    proto::Geometry geometry = testing::small_geometry();
    geometry.tile = tile;
    geometry.dtype = dtype;
    geometry.tp = tp;
    proto::fill_even_shards(geometry);
    SessionFiles files(geometry);
    auto client = need(shm::SchedulePublisher::attach(files.segment));
    const std::uint64_t step = publish_step(client, columns);
    for (std::uint32_t rank = 0; rank < tp; ++rank) {
        RankWriter writer = need(RankWriter::attach(files.segment.path(), rank));
        const std::size_t row_bytes = std::size_t{geometry.shards[rank].count} * proto::element_bytes(dtype);
        const Bytes rows = random_rows(row_bytes * columns, rank + tile);
        const Bytes wanted = naive_slice(geometry, rank, columns, rows);
        const auto pointers = row_pointers(rows, row_bytes, columns);

        for (std::uint32_t column = 0; column < columns; ++column) {
            writer.write_column(step, column, pointers[column]);
        }
        REQUIRE(slice_of(writer, step, wanted.size()) == wanted);

        std::memset(writer.slice(step), 0x55, wanted.size());
        writer.write_all(step, pointers);
        REQUIRE(slice_of(writer, step, wanted.size()) == wanted);
    }
}

TEST_CASE("uneven shards are written by their own lengths, and what lies beyond the vocabulary is padding") {
    proto::Geometry geometry = testing::small_geometry();
    geometry.tp = 4;
    geometry.shards[0] = {0, 990};
    geometry.shards[1] = {990, 1};
    geometry.shards[2] = {991, 80};
    geometry.shards[3] = {1071, 200};
    SessionFiles files(geometry);
    auto client = need(shm::SchedulePublisher::attach(files.segment));
    const std::uint64_t step = publish_step(client, 2);
    for (const std::uint32_t rank : {0U, 1U, 2U, 3U}) {
        RankWriter writer = need(RankWriter::attach(files.segment.path(), rank));
        const std::size_t row_bytes = std::size_t{geometry.shards[rank].count} * 2;
        const Bytes rows = random_rows(row_bytes * 2, rank);
        writer.write_all(step, row_pointers(rows, row_bytes, 2));
        const Bytes wanted = naive_slice(geometry, rank, 2, rows);
        CHECK(slice_of(writer, step, wanted.size()) == wanted);
    }
}

TEST_CASE("a column that the step does not have is refused and nothing is written") {
    SessionFiles files(testing::small_geometry());
    auto client = need(shm::SchedulePublisher::attach(files.segment));
    const std::uint64_t step = publish_step(client, 2);
    RankWriter writer = need(RankWriter::attach(files.segment.path(), 0));
    const Bytes row = random_rows(2000, 1);
    const Bytes before = slice_of(writer, step, 4096);
    CHECK_THROWS_WITH(writer.write_column(step, 2, row.data()), "step 0 has 2 columns: there is no column 2");
    CHECK_THROWS_WITH(writer.write_all(step, row_pointers(row, 0, 3)), "step 0 has 2 columns, not 3");
    CHECK(slice_of(writer, step, 4096) == before);
}

TEST_CASE("each rank sees its own blocks of the hotness order, and refuses what is none") {
    proto::Geometry geometry = testing::small_geometry();
    geometry.tp = 2;
    geometry.has_order = 1;
    proto::fill_even_shards(geometry);
    SessionFiles files(geometry);
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
        const auto order = files.segment.order(rank);
        std::iota(order.rbegin(), order.rend(), geometry.shards[rank].first_block());
    }
    {
        // Of the ids 500 to 999: blocks 7 to 15, counted from the first.
        const RankWriter second = need(RankWriter::attach(files.segment.path(), 1));
        REQUIRE(second.order().size() == 9);
        CHECK(second.order().front() == 8);
        CHECK(second.order().back() == 0);
    }
    files.segment.order(1)[4] = 3;
    const auto refused = RankWriter::attach(files.segment.path(), 1);
    REQUIRE_FALSE(refused);
    CHECK_THAT(refused.error().message, Catch::Contains("the order of rank 1 is refused") &&
                                            Catch::Contains("entry 4 is 3, its blocks are 7 to 15"));
}

TEST_CASE("a writer is told the oldest step that lacks its slice, and publishing it moves on to the next") {
    SessionFiles files(testing::small_geometry());
    auto client = need(shm::SchedulePublisher::attach(files.segment));
    RankWriter writer = need(RankWriter::attach(files.segment.path(), 0));
    CHECK_FALSE(writer.wait_step(std::chrono::milliseconds(0)).has_value());
    publish_step(client, 2);
    publish_step(client, 3);
    REQUIRE(writer.wait_step(std::chrono::milliseconds(0)) == 0U);
    CHECK(writer.columns(0).size() == 2);
    CHECK(writer.columns(0)[1].load().sequence_uid == 101);
    const std::uint32_t rung = files.segment.header().bell.rung.load();
    CHECK(need(writer.publish(0, 1)));
    CHECK(files.segment.header().bell.rung.load() != rung);
    CHECK(writer.wait_step(std::chrono::milliseconds(0)) == 0U);
    CHECK(need(writer.publish_all(0)));
    CHECK(shm::slice_ready(files.segment, 0, 0));
    CHECK(writer.wait_step(std::chrono::milliseconds(0)) == 1U);
}

TEST_CASE("a writer that waits for a step returns when its session has ended") {
    SessionFiles files(testing::small_geometry());
    RankWriter writer = need(RankWriter::attach(files.segment.path(), 0));
    if (GENERATE(false, true)) {
        auto client = need(shm::SchedulePublisher::attach(files.segment));
        publish_step(client, 1);
    }
    files.segment.header().state = GENERATE(proto::SessionState::closed, proto::SessionState::fenced);
    // Hangs, and fails by its time limit, where the call waits for its timeout.
    CHECK_FALSE(writer.wait_step(std::chrono::hours(1)).has_value());
    CHECK_FALSE(writer.session_open());
}

TEST_CASE("rows of a step that ended without them are refused, whatever its slot holds by now") {
    proto::Geometry geometry = testing::small_geometry();
    geometry.lean_blocks = GENERATE(0U, proto::kLeanGranule);
    SessionFiles files(geometry);
    auto client = need(shm::SchedulePublisher::attach(files.segment));
    RankWriter writer = need(RankWriter::attach(files.segment.path(), 0));
    const std::uint64_t step = publish_step(client, 3);
    const Bytes rows = random_rows(std::size_t{3} * 1000 * 2, 1);
    const auto pointers = row_pointers(rows, 2000, 3);
    // As where all of its columns became void: no logits are wanted, and the engine takes it.
    REQUIRE(client.give_up(step));
    REQUIRE(client.next_complete());
    client.take();
    SECTION("nobody's") {}
    SECTION("a step's with fewer columns") {
        publish_step(client, 1);
        REQUIRE(publish_step(client, 1) == step + geometry.slots);
    }
    SECTION("a step's with more columns than there are rows") {
        publish_step(client, 8);
        REQUIRE(publish_step(client, 8) == step + geometry.slots);
    }
    const Bytes before = slice_of(writer, step, 4096);
    const auto sent = writer.send(step, pointers);
    REQUIRE_FALSE(sent);
    CHECK_THAT(sent.error().message, Catch::Contains("step 0 is not in flight"));
    const bool untouched = slice_of(writer, step, 4096) == before;
    CHECK(untouched);
}

TEST_CASE("a rank has one live writer, and its successor fences it, however late it wakes") {
    SessionFiles files(testing::small_geometry());
    auto client = need(shm::SchedulePublisher::attach(files.segment));
    publish_step(client, 1);
    RankWriter first = need(RankWriter::attach(files.segment.path(), 0));
    const auto second = RankWriter::attach(files.segment.path(), 0);
    REQUIRE_FALSE(second);
    CHECK(second.error().code == shm::Errc::already_held);
    CHECK(first.session_open());
    // As a successor's attach does.
    files.segment.header().writers[0].epoch.fetch_add(1);
    const auto late = first.publish_all(0);
    REQUIRE_FALSE(late);
    CHECK(late.error().code == shm::Errc::stale_epoch);
    CHECK_FALSE(first.session_open());
    CHECK_FALSE(shm::slice_ready(files.segment, 0, 0));
}

TEST_CASE("a writer learns that its session is over: closed, fenced, or left by daemon and client") {
    SessionFiles files(testing::small_geometry());
    RankWriter writer = need(RankWriter::attach(files.segment.path(), 0));
    CHECK(writer.session_open());
    SECTION("closed") {
        files.segment.header().state = proto::SessionState::closed;
    }
    SECTION("fenced") {
        files.segment.header().state = proto::SessionState::fenced;
    }
    SECTION("left") {
        files.segment.release(shm::Role::daemon);
    }
    CHECK_FALSE(writer.session_open());
}

TEST_CASE("a session whose daemon is gone but whose client lives is open still") {
    SessionFiles files(testing::small_geometry());
    need(shm::SchedulePublisher::attach(files.segment));
    RankWriter writer = need(RankWriter::attach(files.segment.path(), 0));
    files.segment.release(shm::Role::daemon);
    CHECK(writer.session_open());
}

TEST_CASE("the random ring is rank 0's to write") {
    proto::Geometry geometry = testing::small_geometry();
    geometry.tp = 2;
    proto::fill_even_shards(geometry);
    SessionFiles files(geometry);
    auto client = need(shm::SchedulePublisher::attach(files.segment));
    publish_step(client, 3);
    RankWriter zero = need(RankWriter::attach(files.segment.path(), 0));
    RankWriter one = need(RankWriter::attach(files.segment.path(), 1));
    const auto refused = one.publish_randoms(0);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == shm::Errc::bad_argument);
    CHECK_FALSE(shm::randoms_ready(files.segment, 0));
    REQUIRE(zero.randoms(0).size() == 3);
    zero.randoms(0)[2].stream[0] = 7;
    CHECK(need(zero.publish_randoms(0)));
    CHECK(shm::randoms_ready(files.segment, 0));
    CHECK(files.segment.randoms(0)[2].stream[0] == 7);
}

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <limits>

#include "shm/logits_publisher.h"
#include "tests/gpu_writer/writer_under_test.h"

using namespace croupier;
using proto::Dtype;
using testing::Bytes;
using testing::Rows;
using testing::SessionFiles;
using testing::Way;
using testing::WriterUnderTest;

namespace {

constexpr unsigned char kUntouched = 0x55;

proto::Geometry geometry_of(Dtype dtype, std::uint32_t tile, std::uint32_t tp, bool ordered) {
    proto::Geometry geometry = testing::small_geometry();
    geometry.dtype = dtype;
    geometry.tile = tile;
    geometry.tp = tp;
    geometry.slots = 4;
    geometry.has_order = ordered ? 1 : 0;
    geometry.has_summaries = 1;
    proto::fill_even_shards(geometry);
    return geometry;
}

proto::Geometry wide_geometry(Dtype dtype, std::uint32_t tp, std::uint32_t ids) {
    proto::Geometry geometry = geometry_of(dtype, 64, tp, true);
    geometry.vocab = ids * tp - (tp - 1);
    geometry.max_batch = 70;
    proto::fill_even_shards(geometry);
    return geometry;
}

std::size_t room_bytes(const proto::Geometry& geometry, std::uint32_t rank) {
    return std::size_t{geometry.tiles(rank)} * geometry.max_batch * geometry.tile *
           proto::element_bytes(geometry.dtype);
}

void require_maxima(const shm::Segment& segment, std::uint64_t step, std::uint32_t rank,
                    const std::vector<float>& wanted) {
    const auto maxima = segment.maxima(segment.slot_of(step), rank);
    const std::size_t tiles = segment.geometry().tiles(rank);
    const std::size_t stride = segment.geometry().maxima_stride(rank);
    const std::size_t columns = wanted.size() / tiles;
    for (std::size_t pair = 0; pair < wanted.size(); ++pair) {
        const float got = maxima[pair % columns * stride + pair / columns];
        if (!testing::same(got, wanted[pair])) {
            FAIL("tile " << pair / columns << ", column " << pair % columns << ": " << got << ", should be "
                         << wanted[pair]);
        }
    }
}

// Each step with other columns; the rows of the second stand where their ids end, at no round address.
void write_and_compare(Way way, const proto::Geometry& geometry, const std::vector<std::uint32_t>& batches) {
    SessionFiles files(geometry);
    std::vector<std::vector<std::uint32_t>> orders(geometry.tp);
    if (geometry.has_order != 0) orders = testing::lay_orders(files.segment, 3);
    auto client = testing::need(shm::SchedulePublisher::attach(files.segment));
    for (const std::uint32_t columns : batches) testing::publish_step(client, columns);
    for (std::uint32_t rank = 0; rank < geometry.tp; ++rank) {
        const std::uint32_t ids = geometry.shards[rank].count;
        const std::uint64_t aligned = (std::uint64_t{ids} + 63) / 64 * 64;
        WriterUnderTest writer(way, files.segment.path(), rank,
                               aligned * geometry.max_batch * proto::element_bytes(geometry.dtype));
        for (std::uint64_t step = 0; step < batches.size(); ++step) {
            const std::uint32_t columns = batches[step];
            const std::uint64_t stride = step == 1 ? ids : aligned;
            const Rows rows = testing::random_rows(geometry, rank, columns, stride, rank + columns);
            const Bytes wanted = testing::naive_slice(geometry, rank, columns, orders[rank], rows);
            const std::size_t room = room_bytes(geometry, rank);
            std::memset(files.segment.logits(files.segment.slot_of(step), rank), kUntouched, room);
            writer.write(step, rows);
            INFO(testing::name_of(way) << ", rank " << rank << ", " << columns << " columns");
            CHECK(shm::slice_ready(files.segment, step, rank));
            const Bytes got = testing::slice_of(files.segment, step, rank, room);
            const auto differs = std::mismatch(wanted.begin(), wanted.end(), got.begin());
            INFO("byte " << differs.first - wanted.begin() << " of " << wanted.size());
            REQUIRE(differs.first == wanted.end());
            REQUIRE(std::all_of(differs.second, got.end(), [](auto byte) { return byte == kUntouched; }));
            require_maxima(files.segment, step, rank, testing::naive_maxima(geometry, rank, columns, wanted));
        }
    }
}

Rows row_of(const std::vector<std::uint16_t>& codes) {
    Rows rows{Bytes(codes.size() * 2), codes.size()};
    std::memcpy(rows.bytes.data(), codes.data(), rows.bytes.size());
    return rows;
}

// Of one step of one column.
std::vector<float> maxima_of(Way way, std::uint32_t tile, const std::vector<std::uint16_t>& codes) {
    proto::Geometry geometry = geometry_of(Dtype::bf16, tile, 1, false);
    geometry.vocab = static_cast<std::uint32_t>(codes.size());
    proto::fill_even_shards(geometry);
    SessionFiles files(geometry);
    auto client = testing::need(shm::SchedulePublisher::attach(files.segment));
    testing::publish_step(client, 1);
    WriterUnderTest writer(way, files.segment.path(), 0, codes.size() * 2);
    writer.write(0, row_of(codes));
    const auto maxima = files.segment.maxima(0, 0).first(geometry.tiles(0));
    return {maxima.begin(), maxima.end()};
}

}  // namespace

TEST_CASE(
    "rows stand where the layout says, for every tile, dtype, shard, order, stride and number of columns") {
    const auto way = GENERATE(Way::host, Way::store, Way::copy);
    const auto dtype = GENERATE(Dtype::bf16, Dtype::fp16, Dtype::fp32);
    const auto tile = GENERATE(1U, 64U);
    const auto tp = GENERATE(1U, 3U);
    const auto ordered = GENERATE(false, true);
    if (!testing::can_run(way)) return;
    INFO("dtype " << static_cast<int>(dtype) << ", tile " << tile << ", tp " << tp << ", ordered "
                  << ordered);
    write_and_compare(way, geometry_of(dtype, tile, tp, ordered), {1, 5, 8});
}

TEST_CASE("shards that begin inside a block, or lie beyond the vocabulary, are laid like all others") {
    const auto way = GENERATE(Way::host, Way::store, Way::copy);
    const auto dtype = GENERATE(Dtype::bf16, Dtype::fp32);
    const auto tile = GENERATE(1U, 64U);
    const auto ordered = GENERATE(false, true);
    if (!testing::can_run(way)) return;
    proto::Geometry geometry = geometry_of(dtype, tile, 7, ordered);
    geometry.vocab = 700;
    // With units of 16 bytes that begin at the row's, inside it and nowhere; inside one block; past the end.
    geometry.shards[0] = {0, 72};
    geometry.shards[1] = {72, 301};
    geometry.shards[2] = {373, 3};
    geometry.shards[3] = {376, 8};
    geometry.shards[4] = {384, 300};
    geometry.shards[5] = {684, 130};
    geometry.shards[6] = {814, 100};
    INFO("dtype " << static_cast<int>(dtype) << ", tile " << tile << ", ordered " << ordered);
    write_and_compare(way, geometry, {1, 5, 8});
}

TEST_CASE("a few layouts, for a sanitizer of the kernels", "[sanitized]") {
    const auto way = GENERATE(Way::host, Way::store, Way::copy);
    const auto tile = GENERATE(1U, 64U);
    if (!testing::can_run(way)) return;
    write_and_compare(way, geometry_of(Dtype::bf16, tile, 1, tile == 64), {1, 5, 8});
    write_and_compare(way, geometry_of(Dtype::fp32, tile, 1, tile == 1), {1, 5, 8});
}

TEST_CASE("a hotness order of many columns, in slices of more than a chunk") {
    const auto way = GENERATE(Way::host, Way::store, Way::copy);
    const auto dtype = GENERATE(Dtype::bf16, Dtype::fp16, Dtype::fp32);
    const auto tp = GENERATE(1U, 3U);
    if (!testing::can_run(way)) return;
    INFO("dtype " << static_cast<int>(dtype) << ", tp " << tp);
    // So that each rank's slice has a second chunk: the first is tiled in another way.
    const std::uint32_t ids = dtype == Dtype::fp32 ? 9001 : 18001;
    write_and_compare(way, wide_geometry(dtype, tp, ids), {16, 33, 17, 70});
}

TEST_CASE("a hotness order of many columns, for a sanitizer of the kernels", "[sanitized]") {
    const auto way = GENERATE(Way::store, Way::copy);
    if (!testing::can_run(way)) return;
    write_and_compare(way, wide_geometry(Dtype::bf16, 1, 9001), {33, 70});
    write_and_compare(way, wide_geometry(Dtype::fp32, 1, 9001), {17, 33});
}

TEST_CASE("a NaN of either sign is its tile's maximum wherever it stands, and a tile of -inf has -inf") {
    const auto way = GENERATE(Way::host, Way::store, Way::copy);
    const auto tile = GENERATE(1U, 64U);
    if (!testing::can_run(way)) return;
    for (const std::uint32_t nan : {0x7F81U, 0x7FFFU, 0xFF81U, 0xFFFFU}) {
        for (const std::size_t place : {0U, 1U, 63U, 64U, 99U}) {
            std::vector<std::uint16_t> codes(100, 0);
            codes[place == 2 ? 1 : 2] = 0x7F80;
            codes[place] = static_cast<std::uint16_t>(nan);
            const auto maxima = maxima_of(way, tile, codes);
            for (std::size_t i = 0; i < maxima.size(); ++i) {
                INFO(testing::name_of(way) << ", code " << nan << " at " << place << ", tile " << i);
                const float wanted = i == place / tile ? std::numeric_limits<float>::quiet_NaN()
                                     : i == 2 / tile   ? std::numeric_limits<float>::infinity()
                                     : i * tile >= 100 ? -std::numeric_limits<float>::infinity()
                                                       : 0.0F;
                REQUIRE(testing::same(maxima[i], wanted));
            }
        }
    }
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const auto nothing = maxima_of(way, tile, std::vector<std::uint16_t>(70, 0xFF80));
    CHECK(std::all_of(nothing.begin(), nothing.end(), [](float each) { return each == -kInfinity; }));
}

TEST_CASE("a session without summaries gets its tiles and nothing behind them") {
    const auto way = GENERATE(Way::host, Way::store, Way::copy);
    if (!testing::can_run(way)) return;
    proto::Geometry geometry = geometry_of(Dtype::bf16, 64, 1, false);
    geometry.has_summaries = 0;
    SessionFiles files(geometry);
    auto client = testing::need(shm::SchedulePublisher::attach(files.segment));
    testing::publish_step(client, 8);
    WriterUnderTest writer(way, files.segment.path(), 0, std::size_t{1000} * 8 * 2);
    const Rows rows = testing::random_rows(geometry, 0, 8, 1000, 1);
    writer.write(0, rows);
    const Bytes wanted = testing::naive_slice(geometry, 0, 8, {}, rows);
    CHECK(testing::slice_of(files.segment, 0, 0, wanted.size()) == wanted);
}

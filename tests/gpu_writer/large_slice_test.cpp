// Slices of many pieces and chunks: their progress, while it happens.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>

#include "proto/logits_slot.h"
#include "shm/logits_publisher.h"
#include "tests/gpu_writer/writer_under_test.h"

using namespace croupier;
using proto::ReadyWord;
using testing::Bytes;
using testing::Rows;
using testing::SessionFiles;
using testing::Way;
using testing::WriterUnderTest;

namespace {

proto::Geometry large_geometry(bool ordered) {
    proto::Geometry geometry = testing::small_geometry();
    geometry.vocab = 151936;
    geometry.max_batch = 16;
    geometry.has_order = ordered ? 1 : 0;
    geometry.has_summaries = 1;
    proto::fill_even_shards(geometry);
    return geometry;
}

struct Progress {
    std::uint32_t looks = 0;  // that found more tiles than the one before
    std::uint32_t tiles = 0;
};

// Looks at the ready word until the slice is complete: it only grows, and what it counts is there.
Progress follow(const shm::Segment& segment, std::uint64_t step, std::uint32_t columns, const Bytes& wanted) {
    const std::uint32_t tiles = segment.geometry().tiles(0);
    const std::size_t row = wanted.size() / tiles;
    const std::vector<float> maxima = testing::naive_maxima(segment.geometry(), 0, columns, wanted);
    const auto& word = segment.ready(segment.slot_of(step), 0).word;
    const auto* slice = static_cast<const unsigned char*>(segment.logits(segment.slot_of(step), 0));
    const auto laid = segment.maxima(segment.slot_of(step), 0);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    Progress progress;
    while (progress.tiles < tiles) {
        REQUIRE(std::chrono::steady_clock::now() < deadline);
        const ReadyWord ready = ReadyWord::unpack(word.load(std::memory_order_acquire));
        if (ready.step_tag != ReadyWord::tag_of(step) || ready.tiles == progress.tiles) continue;
        REQUIRE(ready.tiles > progress.tiles);
        REQUIRE(ready.tiles <= tiles);
        const std::size_t first = progress.tiles * row;
        const std::size_t count = ready.tiles * row - first;
        REQUIRE(std::memcmp(slice + first, wanted.data() + first, count) == 0);
        ++progress.looks;
        progress.tiles = ready.tiles;
    }
    // They are there with the last tile.
    const std::size_t stride = segment.geometry().maxima_stride(0);
    for (std::size_t pair = 0; pair < maxima.size(); ++pair) {
        if (!testing::same(laid[pair % columns * stride + pair / columns], maxima[pair]))
            FAIL("the maximum of pair " << pair << " is not there");
    }
    return progress;
}

}  // namespace

TEST_CASE("tiles are published in order while they come, each with its bytes, and with the last all maxima") {
    const auto way = GENERATE(Way::host, Way::store, Way::copy, Way::automatic);
    const auto ordered = GENERATE(false, true);
    const auto blocks = GENERATE(1U, 3U, 16U, 132U);
    if (!testing::can_run(way)) return;
    if (way != Way::store && blocks != 16) return;
    const proto::Geometry geometry = large_geometry(ordered);
    SessionFiles files(geometry);
    std::vector<std::vector<std::uint32_t>> orders(1);
    if (ordered) orders = testing::lay_orders(files.segment, 5);
    auto client = testing::need(shm::SchedulePublisher::attach(files.segment));
    WriterUnderTest writer(way, files.segment.path(), 0, std::size_t{151936} * 16 * 2, blocks);
    for (std::uint32_t step = 0; step < 3; ++step) {
        const std::uint32_t columns = step == 1 ? 7 : 16;
        const Rows rows = testing::random_rows(geometry, 0, columns, geometry.vocab, step);
        const Bytes wanted = testing::naive_slice(geometry, 0, columns, orders[0], rows);
        REQUIRE(testing::publish_step(client, columns) == step);
        REQUIRE(writer.begin(step) == 0);
        writer.enqueue(rows);
        const Progress progress = follow(files.segment, step, columns, wanted);
        INFO(testing::name_of(way) << ", " << blocks << " blocks");
        CHECK(progress.tiles == geometry.tiles(0));
        writer.await_finished(step + 1);
        client.take();
    }
}

TEST_CASE("a slice that is copied in chunks that grow is published chunk by chunk") {
    const auto way = GENERATE(Way::host, Way::copy, Way::automatic);
    const auto ordered = GENERATE(false, true);
    if (!testing::can_run(way)) return;
    constexpr std::uint32_t kColumns = 72;
    proto::Geometry geometry = large_geometry(ordered);
    geometry.max_batch = kColumns;
    SessionFiles files(geometry);
    std::vector<std::vector<std::uint32_t>> orders(1);
    if (ordered) orders = testing::lay_orders(files.segment, 7);
    auto client = testing::need(shm::SchedulePublisher::attach(files.segment));
    WriterUnderTest writer(way, files.segment.path(), 0, std::size_t{151936} * kColumns * 2);
    const Rows rows = testing::random_rows(geometry, 0, kColumns, geometry.vocab, 20);
    const Bytes wanted = testing::naive_slice(geometry, 0, kColumns, orders[0], rows);
    testing::publish_step(client, kColumns);
    REQUIRE(writer.begin(0) == 0);
    writer.enqueue(rows);
    INFO(testing::name_of(way));
    CHECK(follow(files.segment, 0, kColumns, wanted).tiles == geometry.tiles(0));
    writer.await_finished(1);
}

TEST_CASE("a step is sent while the one before it is under way") {
    const auto way = GENERATE(Way::host, Way::store, Way::copy);
    if (!testing::can_run(way)) return;
    proto::Geometry geometry = large_geometry(false);
    geometry.slots = 4;
    SessionFiles files(geometry);
    auto client = testing::need(shm::SchedulePublisher::attach(files.segment));
    WriterUnderTest writer(way, files.segment.path(), 0, std::size_t{151936} * 16 * 2);
    std::vector<Bytes> wanted;
    for (std::uint32_t step = 0; step < geometry.slots; ++step) {
        const Rows rows = testing::random_rows(geometry, 0, 16, geometry.vocab, 10 + step);
        wanted.push_back(testing::naive_slice(geometry, 0, 16, {}, rows));
        testing::publish_step(client, 16);
        REQUIRE(writer.begin(step) == 0);
        // The same GPU memory for each step's rows: a copy must not read them later than the stream does.
        writer.enqueue(rows);
    }
    writer.await_finished(geometry.slots);
    for (std::uint32_t step = 0; step < geometry.slots; ++step) {
        INFO(testing::name_of(way) << ", step " << step);
        CHECK(shm::slice_ready(files.segment, step, 0));
        CHECK(testing::slice_of(files.segment, step, 0, wanted[step].size()) == wanted[step]);
    }
}

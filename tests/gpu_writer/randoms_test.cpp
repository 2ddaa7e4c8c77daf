#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

#include "proto/philox.h"
#include "shm/logits_publisher.h"
#include "tests/gpu_writer/writer_under_test.h"

using namespace croupier;
using testing::SessionFiles;
using testing::Way;
using testing::WriterUnderTest;

namespace {

struct Golden {
    std::uint64_t seed;
    std::uint32_t position;  // in prompt and output together
    std::uint32_t child;
    std::array<std::uint32_t, 4> streams;
};

// By an independent Philox4x32-10 that gives Random123's known answers.
const std::vector<Golden>& golden() {
    static const std::vector<Golden> all{
        {0x0ULL, 0U, 0U, {0x6627E8D5U, 0x844515E1U, 0x0661D677U, 0xF0A90ABCU}},
        {0x1ULL, 0U, 0U, {0xE3E80670U, 0x07071C12U, 0xE73404CFU, 0x89E3AF3FU}},
        {0x123456789ABCDEF0ULL, 7U, 0U, {0x2A23B679U, 0x1C7AAB97U, 0xCE43AEF1U, 0x4501BEC0U}},
        {0xFFFFFFFFFFFFFFFFULL, 4294967295U, 0U, {0xC25672DEU, 0x19FD5D37U, 0xEFEA8FF5U, 0xC17338CEU}},
        {0x2AULL, 4095U, 0U, {0x930E69CFU, 0xDB6092F5U, 0xD19AC825U, 0xDCBBE049U}},
        {0xDEADBEEF12345678ULL, 1000U, 3U, {0x8E37A4CAU, 0xC47BBD5FU, 0xD7C05B64U, 0x2A5E9814U}}};
    return all;
}

// A live sequence with this seed, and a column that asks for the position; a part of it lies in the prompt.
proto::ScheduleColumn add_sequence(const shm::Segment& segment, std::uint32_t slot, const Golden& with) {
    proto::SequenceEntry& entry = segment.sequence(slot);
    entry.uid = 100 + slot;
    proto::SamplingParams params;
    params.seed = with.seed;
    params.child = with.child;
    segment.params(slot).store(params);
    entry.prompt_length = std::min(with.position, slot % 6);
    entry.state.store(proto::SequenceState::live, std::memory_order_release);
    proto::ScheduleColumn column;
    column.sequence_uid = entry.uid;
    column.sequence_slot = slot;
    column.position = with.position - entry.prompt_length;
    return column;
}

}  // namespace

TEST_CASE("the CPU's randoms are the golden ones") {
    for (const Golden& each : golden()) {
        for (std::uint32_t stream = 0; stream < 4; ++stream) {
            CHECK(proto::random_at(each.seed, each.position, each.child, stream) == each.streams[stream]);
        }
    }
}

TEST_CASE("a writer's randoms are the CPU's, bit for bit, and come before the slice", "[sanitized]") {
    const auto way = GENERATE(Way::host, Way::store, Way::copy);
    if (!testing::can_run(way)) return;
    proto::Geometry geometry = testing::small_geometry();
    geometry.max_batch = 600;
    geometry.max_sequences = 600;
    SessionFiles files(geometry);
    auto client = testing::need(shm::SchedulePublisher::attach(files.segment));
    std::vector<Golden> asked = golden();
    while (asked.size() < geometry.max_batch) {
        const std::uint64_t seed = asked.size() * 0x9E3779B97F4A7C15ULL;
        const auto number = static_cast<std::uint32_t>(asked.size());
        asked.push_back({seed, 5 + number % 77, number % 3, {}});
        auto& last = asked.back();
        for (std::uint32_t i = 0; i < 4; ++i)
            last.streams[i] = proto::random_at(seed, last.position, last.child, i);
    }
    std::vector<proto::ScheduleColumn> columns;
    for (std::uint32_t slot = 0; slot < asked.size(); ++slot) {
        columns.push_back(add_sequence(files.segment, slot, asked[slot]));
    }
    const std::uint64_t step = testing::need(client.publish(columns, proto::kRandomsSupplied));
    WriterUnderTest writer(way, files.segment.path(), 0, std::size_t{1000} * 600 * 2);
    CHECK_FALSE(shm::randoms_ready(files.segment, step));
    REQUIRE(writer.begin(step) == 0);
    writer.enqueue_randoms();
    writer.enqueue(testing::random_rows(geometry, 0, geometry.max_batch, 1000, 1));
    writer.await_finished(1);
    REQUIRE(shm::randoms_ready(files.segment, step));
    const auto* randoms = files.segment.randoms(files.segment.slot_of(step));
    for (std::uint32_t column = 0; column < asked.size(); ++column) {
        for (std::uint32_t stream = 0; stream < 4; ++stream) {
            INFO(testing::name_of(way) << ", column " << column << ", stream " << stream);
            REQUIRE(randoms[column].stream[stream] == asked[column].streams[stream]);
        }
    }
}

TEST_CASE("a column whose sequence is not there gets the randoms of seed 0") {
    const auto way = GENERATE(Way::host, Way::store);
    if (!testing::can_run(way)) return;
    SessionFiles files(testing::small_geometry());
    auto client = testing::need(shm::SchedulePublisher::attach(files.segment));
    proto::ScheduleColumn outside;
    outside.sequence_slot = 0xFFFFFFFFU;
    outside.position = 9;
    testing::need(client.publish(std::vector{outside}, proto::kRandomsSupplied));
    WriterUnderTest writer(way, files.segment.path(), 0, 2000);
    REQUIRE(writer.begin(0) == 0);
    writer.enqueue_randoms();
    writer.enqueue(testing::random_rows(testing::small_geometry(), 0, 1, 1000, 1));
    writer.await_finished(1);
    CHECK(files.segment.randoms(0)[0].stream[0] == proto::random_at(0, 9, 0, 0));
}

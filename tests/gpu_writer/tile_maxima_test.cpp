#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gpu_writer/rank_writer.h"
#include "shm/schedule_publisher.h"
#include "testing/session_files.h"

using namespace croupier;
using gpu_writer::RankWriter;
using proto::Dtype;
using testing::need;
using testing::SessionFiles;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using Codes = std::vector<std::uint32_t>;  // of one row, whatever the dtype
using Bytes = std::vector<unsigned char>;

// By the definition of the formats: sign, exponent, fraction.
float value_of(Dtype dtype, std::uint32_t code) {
    if (dtype == Dtype::fp32) return std::bit_cast<float>(code);
    if (dtype == Dtype::bf16) return std::bit_cast<float>(code << 16U);
    const int exponent = static_cast<int>(code >> 10U & 31U);
    const int fraction = static_cast<int>(code & 1023U);
    const float sign = (code & 0x8000U) != 0 ? -1.0F : 1.0F;
    if (exponent == 31) return fraction == 0 ? sign * kInfinity : kNan;
    if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
    return sign * std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
}

// Small numbers of either sign; among them now and then a pattern of any bits.
Codes random_row(Dtype dtype, std::uint32_t entries, std::uint32_t any_in, std::mt19937& random) {
    const std::uint32_t bits = proto::element_bytes(dtype) == 2 ? 16 : 32;
    Codes row(entries);
    for (auto& code : row) {
        const auto any = static_cast<std::uint32_t>(random());
        code = any >> (32U - bits);
        // Without the exponent's uppermost bit it is neither NaN nor infinite.
        if (random() % any_in != 0) code &= ~(1U << (bits - 2));
    }
    return row;
}

Bytes bytes_of(Dtype dtype, const Codes& row) {
    const std::size_t size = proto::element_bytes(dtype);
    Bytes bytes(row.size() * size);
    for (std::size_t i = 0; i < row.size(); ++i) std::memcpy(bytes.data() + i * size, &row[i], size);
    return bytes;
}

// Of the row's places from `begin` to `end`, of which the first `lead` are padding.
float naive_maximum(Dtype dtype, const Codes& row, std::size_t begin, std::size_t end, std::size_t lead) {
    float most = -kInfinity;
    begin = std::max(begin, lead) - lead;
    end = std::max(end, lead) - lead;
    for (std::size_t i = begin; i < std::min(end, row.size()); ++i) {
        const float value = value_of(dtype, row[i]);
        if (std::isnan(value)) return kNan;
        most = std::max(most, value);
    }
    return most;
}

bool same(float a, float b) {
    return a == b || (std::isnan(a) && std::isnan(b));
}

proto::Geometry summarised_geometry(Dtype dtype, std::uint32_t tile) {
    proto::Geometry geometry = testing::small_geometry();
    geometry.dtype = dtype;
    geometry.tile = tile;
    geometry.has_summaries = 1;
    return geometry;
}

void publish_step(shm::SchedulePublisher& client, std::uint32_t columns) {
    need(client.publish(std::vector<proto::ScheduleColumn>(columns)));
}

// The maxima of a step of one column that holds `row`.
std::vector<float> maxima_of(Dtype dtype, std::uint32_t tile, const Codes& row) {
    proto::Geometry geometry = summarised_geometry(dtype, tile);
    geometry.vocab = static_cast<std::uint32_t>(row.size());
    proto::fill_even_shards(geometry);
    SessionFiles files(geometry);
    auto client = need(shm::SchedulePublisher::attach(files.segment));
    publish_step(client, 1);
    RankWriter writer = need(RankWriter::attach(files.segment.path(), 0));
    writer.write_column(0, 0, bytes_of(dtype, row).data());
    const auto maxima = writer.maxima(0).first(geometry.tiles(0));
    return {maxima.begin(), maxima.end()};
}

}  // namespace

TEST_CASE("a host writer's maxima are those of the rows, for every tile, dtype and shard") {
    const auto tile = GENERATE(1U, 64U);
    const auto dtype = GENERATE(Dtype::bf16, Dtype::fp16, Dtype::fp32);
    const auto tp = GENERATE(1U, 3U, 7U);
    const auto columns = GENERATE(1U, 5U, 8U);
    proto::Geometry geometry = summarised_geometry(dtype, tile);
    geometry.tp = tp;
    proto::fill_even_shards(geometry);
    SessionFiles files(geometry);
    auto client = need(shm::SchedulePublisher::attach(files.segment));
    publish_step(client, columns);
    std::mt19937 random(tile + tp);
    for (std::uint32_t rank = 0; rank < tp; ++rank) {
        RankWriter writer = need(RankWriter::attach(files.segment.path(), rank));
        std::vector<Codes> rows;
        std::vector<Bytes> bytes;
        std::vector<const void*> pointers;
        pointers.reserve(columns);
        for (std::uint32_t column = 0; column < columns; ++column) {
            rows.push_back(
                random_row(dtype, geometry.shards[rank].count, column % 2 == 0 ? 500 : 20, random));
            bytes.push_back(bytes_of(dtype, rows.back()));
        }
        for (const Bytes& each : bytes) pointers.push_back(each.data());
        const auto maxima = writer.maxima(0);
        const std::size_t stride = geometry.maxima_stride(rank);
        REQUIRE(maxima.size() == stride * columns);
        const auto agree = [&] {
            for (std::size_t at = 0; at < geometry.tiles(rank); ++at) {
                for (std::size_t column = 0; column < columns; ++column) {
                    const float wanted = naive_maximum(dtype, rows[column], at * tile, (at + 1) * tile,
                                                       geometry.shards[rank].first_id % 64);
                    const float got = maxima[column * stride + at];
                    INFO("rank " << rank << ", tile " << at << ", column " << column << ": " << got
                                 << ", should be " << wanted);
                    REQUIRE(same(got, wanted));
                }
            }
        };
        for (std::uint32_t column = 0; column < columns; ++column) {
            writer.write_column(0, column, pointers[column]);
        }
        agree();
        std::fill(maxima.begin(), maxima.end(), 12345.0F);
        writer.write_all(0, pointers);
        agree();
    }
}

TEST_CASE("a NaN of either sign is its tile's maximum wherever it stands, and no other tile's") {
    const auto dtype = GENERATE(Dtype::bf16, Dtype::fp16, Dtype::fp32);
    const std::vector<std::uint32_t> nans = [&]() -> Codes {
        if (dtype == Dtype::bf16) return {0x7F81, 0x7FFF, 0xFF81, 0xFFFF};
        if (dtype == Dtype::fp16) return {0x7C01, 0x7FFF, 0xFC01, 0xFFFF};
        return {0x7F800001, 0x7FFFFFFF, 0xFF800001, 0xFFFFFFFF};
    }();
    const std::uint32_t infinite = nans[0] - 1;
    for (const std::uint32_t nan : nans) {
        for (const std::size_t place : {0U, 1U, 31U, 63U, 64U, 99U}) {
            Codes row(100, 0);
            row[place == 0 ? 1 : 0] = infinite;
            row[place] = nan;
            const auto maxima = maxima_of(dtype, 64, row);
            INFO("code " << nan << " at " << place);
            REQUIRE(maxima.size() == 2);
            CHECK(std::isnan(maxima[place / 64]));
            CHECK(maxima[1 - place / 64] == (place < 64 ? 0.0F : kInfinity));
        }
    }
}

TEST_CASE("every 16-bit code is a maximum of its own value") {
    const auto dtype = GENERATE(Dtype::bf16, Dtype::fp16);
    Codes row(0x10000);
    for (std::uint32_t code = 0; code < row.size(); ++code) row[code] = code;
    const auto maxima = maxima_of(dtype, 1, row);
    REQUIRE(maxima.size() == row.size());
    const auto wrong = [&] {
        std::vector<std::uint32_t> codes;
        for (const std::uint32_t code : row) {
            if (!same(maxima[code], value_of(dtype, code))) codes.push_back(code);
        }
        return codes;
    }();
    CHECK(wrong.empty());
}

TEST_CASE("a tile of -inf has -inf for its maximum, and what follows the last entry counts for nothing") {
    const Codes nothing(70, 0xFF80);
    CHECK(maxima_of(Dtype::bf16, 64, nothing) == std::vector<float>{-kInfinity, -kInfinity});
    Codes lowest(70, 0xFF7F);
    lowest[69] = 0xFF7E;
    const float least = value_of(Dtype::bf16, 0xFF7F);
    CHECK(maxima_of(Dtype::bf16, 64, lowest) == std::vector<float>{least, value_of(Dtype::bf16, 0xFF7E)});
}

TEST_CASE("one column's maxima leave the others' as they are") {
    SessionFiles files(summarised_geometry(Dtype::fp32, 64));
    auto client = need(shm::SchedulePublisher::attach(files.segment));
    publish_step(client, 3);
    RankWriter writer = need(RankWriter::attach(files.segment.path(), 0));
    const auto maxima = writer.maxima(0);
    std::fill(maxima.begin(), maxima.end(), 7.0F);
    const std::vector<float> row(1000, -2.0F);
    writer.write_column(0, 1, row.data());
    const std::size_t stride = maxima.size() / 3;
    const std::size_t tiles = writer.geometry().tiles(0);
    for (std::size_t i = 0; i < maxima.size(); ++i) {
        const bool of_it = i / stride == 1 && i % stride < tiles;
        CHECK(maxima[i] == (of_it ? -2.0F : 7.0F));
    }
}

TEST_CASE("slots and ranks have maxima of their own") {
    proto::Geometry geometry = summarised_geometry(Dtype::fp32, 64);
    geometry.tp = 2;
    proto::fill_even_shards(geometry);
    SessionFiles files(geometry);
    float mark = 0.0F;
    for (std::uint32_t slot = 0; slot < geometry.slots; ++slot) {
        for (std::uint32_t rank = 0; rank < geometry.tp; ++rank) {
            const auto maxima = files.segment.maxima(slot, rank);
            REQUIRE(maxima.size() == std::size_t{geometry.maxima_stride(rank)} * geometry.max_batch);
            std::fill(maxima.begin(), maxima.end(), ++mark);
        }
    }
    mark = 0.0F;
    for (std::uint32_t slot = 0; slot < geometry.slots; ++slot) {
        for (std::uint32_t rank = 0; rank < geometry.tp; ++rank) {
            const auto maxima = files.segment.maxima(slot, rank);
            ++mark;
            CHECK(std::all_of(maxima.begin(), maxima.end(), [mark](float each) { return each == mark; }));
        }
    }
}

TEST_CASE("a session without summaries has no maxima to write") {
    SessionFiles files(testing::small_geometry());
    auto client = need(shm::SchedulePublisher::attach(files.segment));
    publish_step(client, 2);
    RankWriter writer = need(RankWriter::attach(files.segment.path(), 0));
    CHECK(writer.maxima(0).empty());
    CHECK(files.segment.maxima(0, 0).data() == nullptr);
}

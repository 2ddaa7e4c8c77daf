// What a sampler knows of rows that are still on their way.
#include "daemon/worker/early_maxima.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "gpu_writer/rank_writer.h"
#include "shm/schedule_publisher.h"
#include "testing/session_files.h"

using namespace croupier;
using daemon::CheckedStep;
using daemon::EarlyMaxima;
using gpu_writer::RankWriter;
using testing::need;
using testing::SessionFiles;

namespace {

constexpr std::uint32_t kColumns = 5;
constexpr std::uint32_t kFirst = 1;
constexpr std::uint32_t kEnd = 4;
constexpr std::array<std::uint32_t, kEnd - kFirst> kFollowed = {1, 2, 3};

// Its ranks share blocks, and where it is padded the last one holds ids beyond the vocabulary.
proto::Geometry geometry_of(std::uint32_t tp, std::uint32_t padded_vocab, bool ordered) {
    proto::Geometry geometry = testing::small_geometry();
    geometry.vocab = 20011;
    geometry.dtype = proto::Dtype::fp32;
    geometry.tp = tp;
    geometry.has_order = ordered ? 1 : 0;
    proto::fill_even_shards(geometry, padded_vocab);
    return geometry;
}

// Each rank's blocks from the last to the first.
std::vector<std::vector<std::uint32_t>> lay_orders(const shm::Segment& segment) {
    std::vector<std::vector<std::uint32_t>> orders;
    if (segment.geometry().has_order == 0) return orders;
    for (std::uint32_t rank = 0; rank < segment.geometry().tp; ++rank) {
        const auto order = segment.order(rank);
        std::iota(order.rbegin(), order.rend(), segment.geometry().shards[rank].first_block());
        orders.emplace_back(order.begin(), order.end());
    }
    return orders;
}

struct Session {
    explicit Session(std::uint32_t tp, std::uint32_t padded_vocab = 0, bool ordered = false)
        : files(geometry_of(tp, padded_vocab, ordered)),
          client(need(shm::SchedulePublisher::attach(files.segment))),
          orders(lay_orders(files.segment)),
          early(files.segment.geometry(), orders) {
        for (std::uint32_t rank = 0; rank < tp; ++rank) {
            writers.push_back(need(RankWriter::attach(files.segment.path(), rank)));
        }
        const proto::RankShard& last = files.segment.geometry().shards[tp - 1];
        for (auto& row : rows) row.resize(last.first_id + last.count);
    }

    CheckedStep publish() {
        const std::uint64_t number = need(client.publish(std::vector<proto::ScheduleColumn>(kColumns)));
        std::mt19937 random(static_cast<std::uint32_t>(number) + 1);
        std::normal_distribution<float> values(0.0F, 3.0F);
        for (auto& row : rows) std::generate(row.begin(), row.end(), [&] { return values(random); });
        return {number, files.segment.slot_of(number), kColumns, false};
    }
    void lay(const CheckedStep& step) {
        for (RankWriter& writer : writers) {
            const std::uint32_t first = files.segment.geometry().shards[writer.rank()].first_id;
            for (std::uint32_t column = 0; column < kColumns; ++column) {
                writer.write_column(step.step, column, &rows[column][first]);
            }
        }
    }
    void announce(const CheckedStep& step, std::uint32_t rank, std::uint32_t tiles) {
        need(writers[rank].publish(step.step, tiles));
    }
    void announce_all(const CheckedStep& step) {
        for (RankWriter& writer : writers) need(writer.publish_all(step.step));
    }
    bool follow(const CheckedStep& step) { return early.follow(files.segment, step, kFollowed); }
    std::vector<sampler::Slice> finish(const CheckedStep& step, std::uint32_t column, bool& known) {
        std::vector<sampler::Slice> slices(writers.size());
        known = early.finish(files.segment, step, column, slices);
        return slices;
    }
    void require_maxima(const CheckedStep& step, std::uint32_t column) {
        bool known = false;
        const auto slices = finish(step, column, known);
        REQUIRE(known);
        for (std::size_t rank = 0; rank < writers.size(); ++rank) {
            const proto::Geometry& geometry = files.segment.geometry();
            const proto::RankShard& shard = geometry.shards[rank];
            const auto& summaries = slices[rank].summaries;
            for (std::uint32_t tile = 0; tile < shard.blocks(); ++tile) {
                const std::uint32_t block = orders.empty() ? shard.first_block() + tile : orders[rank][tile];
                float most = -std::numeric_limits<float>::infinity();
                for (std::uint32_t id = block * 64; id < block * 64 + 64; ++id) {
                    const bool own = id >= shard.first_id && id < shard.first_id + shard.count;
                    if (own && id < geometry.vocab) most = std::max(most, rows[column][id]);
                }
                INFO("rank " << rank << ", column " << column << ", tile " << tile);
                REQUIRE(summaries.maxima[std::size_t{column} * summaries.stride + tile] == most);
            }
        }
    }

    SessionFiles files;
    shm::SchedulePublisher client;
    std::vector<std::vector<std::uint32_t>> orders;
    EarlyMaxima early;
    std::vector<RankWriter> writers;
    std::vector<float> rows[kColumns];
};

}  // namespace

TEST_CASE("tiles are taken in as they land, of all ranks, and the rest when they are complete") {
    const auto tp = GENERATE(1U, 3U);
    const auto padded_vocab = GENERATE(0U, 20300U, 40000U);
    const bool ordered = GENERATE(false, true);
    Session session(tp, padded_vocab, ordered);
    for (std::uint32_t round = 0; round < 4; ++round) {
        const CheckedStep step = session.publish();
        session.lay(step);
        CHECK_FALSE(session.follow(step));
        for (std::uint32_t rank = 0; rank < tp; ++rank) session.announce(step, rank, 20 + rank + 20 * round);
        CHECK(session.follow(step));
        while (session.follow(step)) {
        }
        session.announce_all(step);
        for (std::uint32_t column = kFirst; column < kEnd; ++column) session.require_maxima(step, column);
        bool known = true;
        session.finish(step, 0, known);
        CHECK_FALSE(known);
        session.finish(step, kEnd, known);
        CHECK_FALSE(known);
        session.client.take();
    }
}

TEST_CASE("a row that nobody followed, or not of every rank, is left to its decision") {
    Session session(3);
    const CheckedStep step = session.publish();
    session.lay(step);
    session.announce(step, 0, 10);
    session.announce(step, 2, 10);
    CHECK(session.follow(step));
    session.announce_all(step);
    bool known = true;
    session.finish(step, kFirst, known);
    CHECK_FALSE(known);
}

TEST_CASE("a NaN or +inf leaves its column to the decision that will report it, wherever it stands") {
    const float value =
        GENERATE(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity());
    const std::size_t place = GENERATE(0U, 700U, 20010U);
    Session session(1);
    const CheckedStep step = session.publish();
    session.rows[2][place] = value;
    session.lay(step);
    session.announce(step, 0, 30);
    CHECK(session.follow(step));
    session.announce_all(step);
    bool known = true;
    session.finish(step, 2, known);
    CHECK_FALSE(known);
    session.require_maxima(step, 1);
    session.require_maxima(step, 3);
}

TEST_CASE("a writer that takes over begins anew, and what its predecessor had is forgotten") {
    Session session(1);
    const CheckedStep step = session.publish();
    session.lay(step);
    session.announce(step, 0, 100);
    while (session.follow(step)) {
    }
    session.writers.clear();
    session.writers.push_back(need(RankWriter::attach(session.files.segment.path(), 0)));
    for (auto& row : session.rows) std::reverse(row.begin(), row.end());
    session.lay(step);
    SECTION("and was seen at it") {
        session.announce(step, 0, 50);
        CHECK(session.follow(step));
        session.announce_all(step);
        session.require_maxima(step, 2);
    }
    SECTION("and was not seen before it was through") {
        session.announce_all(step);
        bool known = true;
        session.finish(step, 2, known);
        CHECK_FALSE(known);
    }
}

TEST_CASE("maxima that the writers give, and tiles of another size, are not wanted twice") {
    proto::Geometry geometry = geometry_of(1, 0, false);
    CHECK(EarlyMaxima(geometry).wanted());
    geometry.has_summaries = 1;
    CHECK_FALSE(EarlyMaxima(geometry).wanted());
    geometry.has_summaries = 0;
    geometry.tile = 1;
    CHECK_FALSE(EarlyMaxima(geometry).wanted());
}

// Words of shared memory hold the low bits of a step: what a slot keeps from a step 2^28 or 2^32 steps ago is
// not taken for the present one's.
#include <catch2/catch.hpp>

#include "proto/lean_part.h"
#include "shm/logits_publisher.h"
#include "test_session.h"
#include "testing/moved_counters.h"

using namespace croupier;
using namespace croupier::shm;
using testing::kTagPeriod;

namespace {

constexpr std::uint32_t kColumns = 2;
constexpr std::uint64_t kClaimPeriod = std::uint64_t{1} << 32U;

proto::Geometry geometry_of(bool lean) {
    proto::Geometry geometry = small_geometry();
    geometry.vocab = 2 * 64 * 64;
    geometry.slots = 2;
    geometry.tile = proto::kBlockIds;
    geometry.lean_blocks = lean ? proto::kLeanGranule : 0;
    proto::fill_even_shards(geometry);
    return geometry;
}

// The session's processes, which come and go together.
struct Processes {
    explicit Processes(const TestSession& session)
        : segment(session.open()),
          client(SchedulePublisher::attach(segment).value()),
          writers{LogitsPublisher::attach(segment, 0).value(), LogitsPublisher::attach(segment, 1).value()} {}

    bool lean() const { return segment.geometry().is_lean(); }
    std::uint64_t publish() {
        const std::uint64_t step = client.next_to_publish();
        return client.publish(columns_of(step, kColumns), lean() ? 0 : proto::kRandomsSupplied).value();
    }
    void send(std::uint64_t step) {
        if (!lean()) REQUIRE(writers[0].publish_randoms(step));
        for (LogitsPublisher& writer : writers) {
            REQUIRE(writer.publish_all(step));
            if (!lean()) continue;
            for (auto& stamp : segment.ready(segment.slot_of(step), writer.rank()).stamps)
                stamp.store(lean_word(segment, step, writer.rank()).pack());
        }
    }
    bool is_sent(std::uint64_t step, std::uint32_t rank) const {
        const std::uint64_t word = lean_word(segment, step, rank).pack();
        bool any = slice_ready(segment, step, rank);
        for (const auto& stamp : segment.ready(segment.slot_of(step), rank).stamps)
            any = any || stamp.load() == word;
        return any;
    }

    Segment segment;
    SchedulePublisher client;
    LogitsPublisher writers[2];
};

}  // namespace

TEST_CASE("what writers left in a slot 2^28 steps ago is not taken for the step's") {
    const std::uint64_t start =
        GENERATE(std::uint64_t{0}, std::uint64_t{6}, kTagPeriod - 2, kTagPeriod, kClaimPeriod - 2);
    TestSession session(geometry_of(GENERATE(false, true)));
    testing::move_counters(session.daemon(), start);
    {
        Processes before(session);
        const std::uint64_t step = before.publish();
        REQUIRE(step == start);
        before.send(step);
        for (const std::uint32_t rank : {0U, 1U}) REQUIRE(before.is_sent(step, rank));
        REQUIRE(randoms_ready(before.segment, step) != before.lean());
        decide_rest(before.segment, step, kColumns, 1);
        before.client.take();
    }
    testing::move_counters(session.daemon(), start + kTagPeriod);
    testing::forget_writers(session.daemon());
    Processes after(session);
    const std::uint64_t step = after.publish();
    REQUIRE(after.segment.slot_of(step) == after.segment.slot_of(start));
    for (const std::uint32_t rank : {0U, 1U}) CHECK_FALSE(after.is_sent(step, rank));
    CHECK_FALSE(randoms_ready(after.segment, step));
    CHECK(after.writers[0].next_step() == step);
    after.send(step);
    for (const std::uint32_t rank : {0U, 1U}) CHECK(after.is_sent(step, rank));
    CHECK(randoms_ready(after.segment, step) != after.lean());
}

TEST_CASE("no client and no writer has the epoch 0, which stands for none") {
    TestSession session(geometry_of(true));
    session.daemon().header().client_epoch.store(0xFFFFFFFFU);
    session.daemon().header().writers[0].epoch.store(0xFFFFFFFFU);
    session.daemon().header().writers[1].epoch.store(0xFFFFU);
    const Processes all(session);
    CHECK(all.client.epoch() == 1);
    CHECK(all.writers[0].epoch() == 1);
    CHECK(all.writers[1].epoch() == 0x10001U);
}

TEST_CASE("steps go on over each number at which some word's step comes round") {
    const std::uint64_t start = GENERATE(kTagPeriod - 3, kClaimPeriod - 3, 16 * kClaimPeriod - 3);
    TestSession session(geometry_of(GENERATE(false, true)));
    testing::move_counters(session.daemon(), start);
    Processes all(session);
    for (std::uint64_t step = start; step < start + 8; ++step) {
        REQUIRE(all.publish() == step);
        for (const std::uint32_t rank : {0U, 1U}) REQUIRE_FALSE(all.is_sent(step, rank));
        REQUIRE_FALSE(randoms_ready(all.segment, step));
        all.send(step);
        for (const std::uint32_t rank : {0U, 1U}) REQUIRE(slice_ready(all.segment, step, rank));
        REQUIRE(randoms_ready(all.segment, step) != all.lean());
        REQUIRE(decide_rest(all.segment, step, kColumns, 1) == kColumns);
        REQUIRE(take_all(all.client, all.segment));
    }
}

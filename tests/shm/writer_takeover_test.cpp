// What a rank's new writer finds: complete slices are kept, parts of slices are written again.
#include <catch2/catch.hpp>

#include "shm/logits_publisher.h"
#include "test_session.h"

using namespace croupier;
using namespace croupier::shm;

namespace {

struct TwoSteps {
    TwoSteps() : segment(session.open()), client(SchedulePublisher::attach(segment).value()) {
        REQUIRE(client.publish(columns_of(0, 2)));
        REQUIRE(client.publish(columns_of(1, 2)));
        tiles = segment.geometry().tiles(0);
    }
    bool ready(std::uint64_t step) { return slice_ready(session.daemon(), step, 0); }

    TestSession session;
    Segment segment;
    SchedulePublisher client;
    std::uint32_t tiles = 0;
};

}  // namespace

TEST_CASE("a slice is invisible until its last tile is published") {
    TwoSteps two;
    auto writer = LogitsPublisher::attach(two.segment, 0);
    REQUIRE(writer);
    for (std::uint32_t landed = 0; landed < two.tiles; ++landed) {
        REQUIRE(writer.value().publish(0, landed));
        CHECK_FALSE(two.ready(0));
        CHECK(writer.value().next_step() == 0);
    }
    REQUIRE(writer.value().publish(0, two.tiles));
    CHECK(two.ready(0));
    CHECK(writer.value().next_step() == 1);
}

TEST_CASE("a new writer vouches for the complete slices of its predecessor and writes partial ones again") {
    TwoSteps two;
    {
        Segment segment = two.session.open();
        auto writer = LogitsPublisher::attach(segment, 0);
        REQUIRE(writer.value().publish(0, two.tiles));
        REQUIRE(writer.value().publish(1, two.tiles - 1));
    }
    Segment segment = two.session.open();
    auto successor = LogitsPublisher::attach(segment, 0);
    REQUIRE(successor);
    CHECK(two.ready(0));
    CHECK_FALSE(two.ready(1));
    CHECK(successor.value().next_step() == 1);
    REQUIRE(successor.value().publish(1, two.tiles));
    CHECK(two.ready(1));
    CHECK_FALSE(successor.value().next_step().has_value());
}

TEST_CASE("what a fenced epoch publishes late is not taken for ready") {
    TwoSteps two;
    const std::uint32_t slot = two.segment.slot_of(0);
    auto writer = LogitsPublisher::attach(two.segment, 0);
    const proto::ReadyWord stale{writer.value().epoch() - 1, proto::ReadyWord::tag_of(0), two.tiles};
    two.segment.ready(slot, 0).word.store(stale.pack());
    CHECK_FALSE(two.ready(0));
}

TEST_CASE("a ready slice of the step that had the slot before is not taken for this step's") {
    TwoSteps two;
    auto writer = LogitsPublisher::attach(two.segment, 0);
    REQUIRE(writer.value().publish(0, two.tiles));
    decide_rest(two.session.daemon(), 0, 2, 1);
    two.client.take();
    REQUIRE(two.client.publish(columns_of(2, 2)));
    REQUIRE(two.client.publish(columns_of(3, 2)));
    REQUIRE(two.segment.slot_of(3) == two.segment.slot_of(0));
    CHECK_FALSE(two.ready(3));
}

TEST_CASE("a writer is refused a step that is not in flight, too many tiles and a rank that does not exist") {
    TwoSteps two;
    auto writer = LogitsPublisher::attach(two.segment, 0);
    const auto ahead = writer.value().publish(2, two.tiles);
    REQUIRE_FALSE(ahead);
    CHECK(ahead.error().code == Errc::bad_argument);
    CHECK(ahead.error().message.find("step 2 is not in flight; steps 0 to 1 are") == 0);
    const auto tiles = writer.value().publish(0, two.tiles + 1);
    REQUIRE_FALSE(tiles);
    CHECK(tiles.error().message.find("rank 0 has 64 tiles, not 65") == 0);
    const auto rank = LogitsPublisher::attach(two.segment, 2);
    REQUIRE_FALSE(rank);
    CHECK(rank.error().message.find("rank 2 does not exist: session engine-0 has ranks 0 to 1") == 0);
}

TEST_CASE("supplied randoms are ready for their own step only") {
    TwoSteps two;
    auto writer = LogitsPublisher::attach(two.segment, 0);
    CHECK_FALSE(randoms_ready(two.session.daemon(), 0));
    REQUIRE(writer.value().publish_randoms(0));
    CHECK(randoms_ready(two.session.daemon(), 0));
    CHECK_FALSE(randoms_ready(two.session.daemon(), 1));
}

TEST_CASE("randoms of a dead rank 0 without its logits are not taken for its successor's") {
    TwoSteps two;
    {
        Segment segment = two.session.open();
        auto writer = LogitsPublisher::attach(segment, 0);
        REQUIRE(writer.value().publish_randoms(0));
        REQUIRE(writer.value().publish(0, two.tiles - 1));
    }
    Segment segment = two.session.open();
    auto successor = LogitsPublisher::attach(segment, 0);
    CHECK_FALSE(randoms_ready(two.session.daemon(), 0));
    REQUIRE(successor.value().publish(0, two.tiles));
    CHECK(two.ready(0));
    CHECK_FALSE(randoms_ready(two.session.daemon(), 0));
    REQUIRE(successor.value().publish_randoms(0));
    CHECK(randoms_ready(two.session.daemon(), 0));
}

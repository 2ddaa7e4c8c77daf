// A block request is asked by one and answered by each rank, and nobody believes a bit that stands in no
// slice.
#include "shm/block_requests.h"

#include <array>
#include <catch2/catch.hpp>
#include <utility>

#include "proto/lean_part.h"
#include "test_session.h"
#include "testing/moved_counters.h"

using namespace croupier;
using namespace croupier::shm;

namespace {

constexpr std::uint64_t kStep = 5;
constexpr std::uint32_t kEpochs = 7;
using Bits = std::array<std::uint64_t, 2>;

proto::Geometry lean_geometry() {
    proto::Geometry geometry = small_geometry();
    geometry.vocab = 2 * 64 * 64;
    geometry.tp = 2;
    geometry.slots = 4;  // by which 2^28 can be divided
    geometry.tile = proto::kBlockIds;
    geometry.lean_blocks = proto::kLeanGranule;
    proto::fill_even_shards(geometry);
    return geometry;
}

struct Stage {
    Stage() : session(lean_geometry()) {}

    TestSession session;
    BlockRequests requests{session.daemon(), kStep, kEpochs};

    void answer(std::uint32_t rank) {
        const std::uint64_t word = requests.unanswered(0, rank);
        REQUIRE(word != 0);
        requests.answer(0, rank).store(word);
    }
    Bits placed() const {
        const auto bits = requests.placed(0);
        return bits.empty() ? Bits{} : Bits{bits[0], bits[1]};
    }
};

}  // namespace

TEST_CASE("a column is awaited until each rank has answered its block request") {
    Stage stage;
    CHECK_FALSE(stage.requests.awaited(0));
    CHECK(stage.requests.placed(0).empty());
    const std::uint64_t posted = stage.requests.posted();
    stage.requests.ask(0, Bits{1, 2});
    CHECK(stage.requests.posted() == posted + 1);
    CHECK(stage.requests.awaited(0));
    CHECK_FALSE(stage.requests.awaited(1));
    stage.answer(1);
    CHECK(stage.requests.awaited(0));
    CHECK(stage.requests.unanswered(0, 1) == 0);
    stage.answer(0);
    CHECK_FALSE(stage.requests.awaited(0));
    CHECK(stage.placed() == Bits{1, 2});
}

TEST_CASE("what is asked for later is added to what stands there") {
    Stage stage;
    stage.requests.ask(0, Bits{1, 0});
    stage.answer(0);
    stage.answer(1);
    stage.requests.ask(0, Bits{4, 8});
    CHECK(stage.requests.awaited(0));
    stage.answer(0);
    stage.answer(1);
    CHECK(stage.placed() == Bits{5, 8});
}

TEST_CASE("a block request of another step, or of writers that are gone, is none of this one's") {
    Stage stage;
    stage.requests.ask(0, Bits{1, 0});
    const BlockRequests next(stage.session.daemon(), kStep + 1, kEpochs);
    const BlockRequests anew(stage.session.daemon(), kStep, kEpochs + 1);
    for (const BlockRequests& other : {next, anew}) {
        CHECK_FALSE(other.awaited(0));
        CHECK(other.placed(0).empty());
        CHECK(other.unanswered(0, 0) == 0);
    }
    // Its own first round, whatever stands in the cell.
    anew.ask(0, Bits{0, 16});
    anew.answer(0, 0).store(anew.unanswered(0, 0));
    anew.answer(0, 1).store(anew.unanswered(0, 1));
    CHECK(anew.placed(0)[0] == 0);
    CHECK(anew.placed(0)[1] == 16);
}

TEST_CASE("a block request of 2^28 steps ago is none of this step's, nor is its answer one to this step's") {
    Stage stage;
    stage.requests.ask(0, Bits{1, 2});
    stage.answer(0);
    stage.answer(1);
    const Segment& segment = stage.session.daemon();
    const BlockRequests later(segment, kStep + testing::kTagPeriod, kEpochs);
    REQUIRE(segment.slot_of(kStep + testing::kTagPeriod) == segment.slot_of(kStep));
    CHECK_FALSE(later.awaited(0));
    CHECK(later.placed(0).empty());
    for (const std::uint32_t rank : {0U, 1U}) CHECK(later.unanswered(0, rank) == 0);
    later.ask(0, Bits{0, 16});
    for (const std::uint32_t rank : {0U, 1U}) {
        CHECK(later.awaited(0));
        REQUIRE(later.unanswered(0, rank) != 0);
        later.answer(0, rank).store(later.unanswered(0, rank));
    }
    CHECK_FALSE(later.awaited(0));
    CHECK(later.placed(0)[0] == 0);
    CHECK(later.placed(0)[1] == 16);
}

TEST_CASE(
    "whoever dies over a step's first block request leaves a cell in which the next owner begins again") {
    Stage stage;
    stage.requests.ask(0, Bits{1, 2});
    stage.answer(0);
    stage.answer(1);
    const std::uint64_t step = kStep + testing::kTagPeriod;
    proto::RequestCell& cell = stage.session.daemon().request_cell(stage.session.daemon().slot_of(step), 0);
    const BlockRequests later(stage.session.daemon(), step, kEpochs);
    // Before it stored the step, and after it.
    const bool has_step = GENERATE(false, true);
    cell.asked.store(proto::RequestWord{proto::ReadyWord::tag_of(step), kEpochs, 1}.pack());
    if (has_step) cell.step.store(step);
    CHECK_FALSE(later.awaited(0));
    CHECK(later.placed(0).empty());
    for (const std::uint32_t rank : {0U, 1U}) CHECK(later.unanswered(0, rank) == 0);
    later.ask(0, Bits{0, 16});
    for (const std::uint32_t rank : {0U, 1U}) {
        CHECK(later.awaited(0));
        REQUIRE(later.unanswered(0, rank) != 0);
        later.answer(0, rank).store(later.unanswered(0, rank));
    }
    CHECK(later.placed(0)[0] == 0);
    CHECK(later.placed(0)[1] == 16);
}

TEST_CASE("bits of which the writer died half-way are not believed, nor is an earlier answer") {
    Stage stage;
    stage.requests.ask(0, Bits{1, 0});
    stage.answer(0);
    stage.answer(1);
    auto& asked = stage.session.daemon().request_cell(stage.session.daemon().slot_of(kStep), 0).asked;
    proto::RequestWord word = proto::RequestWord::unpack(asked.load());
    ++word.round;
    asked.store(word.pack());
    CHECK_FALSE(stage.requests.awaited(0));
    CHECK(stage.requests.placed(0).empty());
    CHECK(stage.requests.unanswered(0, 0) == 0);
    stage.requests.ask(0, Bits{2, 0});
    CHECK(stage.requests.awaited(0));
    stage.answer(0);
    stage.answer(1);
    CHECK(stage.placed() == Bits{2, 0});
}

// What a sampler makes of a segment when it attaches: the orders of blocks, copied and checked once.
#include "daemon/worker/session_view.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

#include "daemon/control/session_admission.h"
#include "testing/session_files.h"
#include "tests/daemon/attached_view.h"

using namespace croupier;
using testing::SessionFiles;

namespace {

// Blocks 0 to 15, of which the ranks share number 6 and number 12.
proto::Geometry ordered_geometry() {
    proto::Geometry geometry = testing::small_geometry();
    geometry.tp = 3;
    geometry.has_order = 1;
    proto::fill_even_shards(geometry, 1200);
    return geometry;
}

std::vector<std::uint32_t> backwards(std::uint32_t blocks) {
    std::vector<std::uint32_t> order(blocks);
    std::iota(order.rbegin(), order.rend(), 0U);
    return order;
}

std::string refusal_of(const SessionFiles& files) {
    proto::StateTotals totals{};
    const auto view = testing::attached_view(files.segment.path(), totals);
    REQUIRE_FALSE(view);
    CHECK(view.error().code == shm::Errc::corrupt_header);
    return view.error().message;
}

}  // namespace

TEST_CASE("a sampler knows where each block of each rank stands, and which ones are hot") {
    const SessionFiles files(ordered_geometry());
    daemon::write_order(files.segment, backwards(16));
    proto::StateTotals totals{};
    const auto view = testing::need(testing::attached_view(files.segment.path(), totals));
    const sampler::RowView row = view->row({0, 0, 1, false}, 0, 0).view;
    REQUIRE(row.slices.size() == 3);
    CHECK(sampler::view_is_consistent(row));
    // Ids 400 to 799: blocks 6 to 12.
    const sampler::Slice& second = row.slices[1];
    CHECK(std::vector(second.blocks, second.blocks + 7) ==
          std::vector<std::uint32_t>{12, 11, 10, 9, 8, 7, 6});
    CHECK(second.places[0] == 6);
    CHECK(second.places[6] == 0);
    // Ids 800 to 1199, of which the vocabulary has 200: what lies beyond it comes last.
    const sampler::Slice& third = row.slices[2];
    CHECK(std::vector(third.blocks, third.blocks + 7) ==
          std::vector<std::uint32_t>{15, 14, 13, 12, 16, 17, 18});
    const auto hot = view->hot_blocks(1);
    CHECK(std::vector(hot.begin(), hot.end()) == std::vector<std::uint32_t>{15, 14, 13, 12});
    CHECK(files.segment.hot_blocks(1)[1] == 1);
    CHECK(files.segment.hot_blocks(1)[2] == 4);
    CHECK(view->hot_blocks(0).empty());
    CHECK(view->hot_blocks(proto::kHotChoices).empty());
    CHECK(view->hot_blocks(proto::kHotChoices - 1).size() == 16);
}

TEST_CASE("a segment whose order is no permutation is refused when a sampler attaches") {
    const SessionFiles files(ordered_geometry());
    daemon::write_order(files.segment, backwards(16));
    SECTION("the model's") {
        files.segment.model_order()[3] = 16;
        CHECK_THAT(refusal_of(files), Catch::Contains("the model's order is refused") &&
                                          Catch::Contains("entry 3 is 16, its blocks are 0 to 15"));
    }
    SECTION("a rank's") {
        files.segment.order(1)[6] = 12;
        CHECK_THAT(refusal_of(files), Catch::Contains("the order of rank 1 is refused") &&
                                          Catch::Contains("entry 6 is 12, which came before"));
    }
}

TEST_CASE("writing over an order after the attach has no effect") {
    const SessionFiles files(ordered_geometry());
    daemon::write_order(files.segment, backwards(16));
    proto::StateTotals totals{};
    const auto view = testing::need(testing::attached_view(files.segment.path(), totals));
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
        for (std::uint32_t& block : files.segment.order(rank)) block = 0xFFFFFFFFU;
    }
    for (std::uint32_t& block : files.segment.model_order()) block = 0xFFFFFFFFU;
    CHECK(view->row({0, 0, 1, false}, 0, 0).view.slices[0].blocks[0] == 6);
    CHECK(view->hot_blocks(1)[0] == 15);
}
